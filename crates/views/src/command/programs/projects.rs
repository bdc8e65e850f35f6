//! Migrations of databases, frameworks and agents. Sources: the help of alembic 1.14, prisma 6, Rails 8, Supabase CLI 2,
//! codex 0.40 and claude 2.

use super::super::program::ProgramSpec;

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(
        &["alembic"],
        "-c= -n= -x= -q -h~ --config= --name= --raiseerr --quiet --sql --tag= --version~ --help~",
    )
    .groups("none"),
    ProgramSpec::new(
        &["prisma"],
        "-h~ -v~ -f --schema= --config= --force --force-reset --accept-data-loss --skip-generate --skip-seed --preview-feature --telemetry-information= \
        --name= --create-only --from-schema-datamodel= --to-schema-datamodel= --applied= --rolled-back= --help~ --version~",
    )
    .groups("migrate db"),
    ProgramSpec::new(
        &["rails", "rake"],
        "-e= -h~ -f= -t -n~ -N -q -s -T~ -P~ -v -V~ -j= -I= -R= -r= --environment= --dry-run~ --rakefile= --trace --tasks~ --prereqs~ --help~ --version~",
    )
    .groups("none"),
    ProgramSpec::new(
        &["supabase"],
        "-h~ -o= -p= -v~ --workdir= --experimental --debug --profile= --dns-resolver= --network-id= --output= --create-ticket --yes --project-ref= --db-url= \
        --linked --local --password= --help~ --version~",
    )
    .groups("backups bootstrap branches config db domains encryption functions gen inspect migration network-bans network-restrictions orgs postgres-config \
        projects secrets seed services snippets ssl-enforcement sso storage test vanity-subdomains"),
    ProgramSpec::new(
        &["codex"],
        "-s= -a= -m= -c= -p= -C= -i= -h~ -V~ --sandbox= --ask-for-approval= --model= --config= --profile= --cd= --image= --add-dir= --enable= --disable= \
        --full-auto --yolo --dangerously-bypass-approvals-and-sandbox --oss --search --json --output-schema= --output-last-message= --color= \
        --skip-git-repo-check --help~ --version~",
    ),
    ProgramSpec::new(
        &["claude"],
        "-p -c -r? -h~ -v~ -d? -n= --print --continue --resume? --model= --fallback-model= --permission-mode= --permission-prompt-tool= --allowedTools= \
        --allowed-tools= --disallowedTools= --disallowed-tools= --tools= --mcp-config= --strict-mcp-config --settings= --setting-sources= --add-dir= \
        --output-format= --input-format= --append-system-prompt= --system-prompt= --session-id= --agents= --max-turns= --verbose --debug? \
        --dangerously-skip-permissions --allow-dangerously-skip-permissions --safe-mode --ide --fork-session --help~ --version~",
    ),
];
