//! Version control. Sources: the manuals of git 2.47, GitHub CLI 2.63 and GitLab CLI 1.50.

use super::super::program::{ProgramAction, ProgramSpec, SubcommandSpec};

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["git"], "-C= -c# -h~ -P -p -v~ --attr-source= --bare --config-env= --exec-path? --git-dir= --glob-pathspecs --help~ --html-path~ \
        --icase-pathspecs --info-path~ --literal-pathspecs --man-path~ --namespace= --no-advice --no-lazy-fetch \
        --no-optional-locks --no-pager --no-replace-objects --noglob-pathspecs --paginate --super-prefix= --version~ --work-tree=")
        .groups("bisect bundle commit-graph maintenance multi-pack-index notes reflog remote sparse-checkout stash submodule subtree worktree lfs flow svn")
        .subcommands(GIT),
    ProgramSpec::new(&["gh"], "-R= -h~ --repo= --help~ --version~").groups("*").subcommands(GH),
    ProgramSpec::new(&["glab"], "-R= -h~ --repo= --help~ --version~").groups("*").subcommands(GH),
    ProgramSpec::new(&["hg", "svn", "jj"], "-R= -q -v -y -m= -r= --repository= --config= --cwd= --noninteractive --message= --revision= --force --help~ --version~")
        .groups("none"),
];

const GIT: &[SubcommandSpec] = &[
    SubcommandSpec::new(
        "add",
        "-A -e -f -i -N -n~ -p -u -v --all --chmod= --dry-run~ --edit --force --ignore-errors --intent-to-add --interactive --no-all --patch \
        --pathspec-from-file= --refresh --renormalize --sparse --update --verbose",
    ),
    SubcommandSpec::new(
        "am",
        "-3 -b -C= -i -k -p= -q -s -S? -u --abort --continue --directory= --quit --signoff --skip --whitespace=",
    ),
    SubcommandSpec::new(
        "apply",
        "-3 -C= -p= -R -v -z --3way --allow-empty --apply --cached --check~ --directory= --exclude= --include= --index --numstat~ --recount --reject --reverse --stat~ \
        --summary~ --unsafe-paths --whitespace=",
    ),
    SubcommandSpec::new(
        "branch",
        "-a -c -C -d -D -f -i -l -m -M -q -r -t? -u= -v --abbrev? --all --color? --column? --contains? --copy --create-reflog --delete --edit-description --force --format= \
        --ignore-case --list --merged? --move --no-contains? --no-merged? --no-track --points-at= --quiet --recurse-submodules --remotes --set-upstream-to= --show-current --sort= --track? \
        --unset-upstream --verbose",
    ),
    SubcommandSpec::runs("bisect run", 0, ""),
    SubcommandSpec::new(
        "checkout",
        "-2 -3 -U= --unified= --inter-hunk-context= -b= -B= -d -f -l -m -p -q -t? --conflict= --detach --force --guess --ignore-other-worktrees --ignore-skip-worktree-bits --merge --no-guess --no-overlay \
        --no-progress --no-track --orphan= --ours --overlay --overwrite-ignore --patch --pathspec-file-nul --pathspec-from-file= --progress --quiet --recurse-submodules? --theirs --track?",
    ),
    SubcommandSpec::new(
        "cherry-pick",
        "-e -m= -n -r -s -S? -x -X= --abort --allow-empty --continue --edit --ff --mainline= --no-commit --quit --signoff --skip --strategy= --strategy-option=",
    ),
    SubcommandSpec::new(
        "clean",
        "-d -e= -f -i -n~ -q -x -X --dry-run~ --exclude= --force --interactive --quiet",
    ),
    SubcommandSpec::new(
        "clone",
        "-4 -6 -b= -c= -j= -l -n -o= -q -s -u= -v --bare --branch= --bundle-uri= --config= --depth= --dissociate --filter= --jobs= --local --mirror --no-checkout \
        --no-hardlinks --no-single-branch --no-tags --origin= --progress --quiet --recurse-submodules? --recursive? --reference= --ref-format= --revision= --separate-git-dir= --shallow-exclude= \
        --shallow-since= --shallow-submodules --shared --single-branch --sparse --template= --upload-pack= --verbose",
    ),
    SubcommandSpec::new(
        "commit",
        "-a -c= -C= -e -F= -i -m= -n -o -p -q -s -S? -t= -u? -v -z --all --allow-empty --allow-empty-message --amend --author= --branch --cleanup= --date= --dry-run~ --edit \
        --file= --fixup= --gpg-sign? --include --interactive --long --message= --no-edit --no-gpg-sign --no-post-rewrite --no-signoff --no-status --no-verify --null --only --patch \
        --pathspec-file-nul --pathspec-from-file= --porcelain --quiet --reedit-message= --reset-author --reuse-message= --short --signoff --squash= --status --template= --trailer= \
        --untracked-files? --verbose --verify",
    ),
    SubcommandSpec::new(
        "config",
        "-e -f= -l -t= -z --add --blob= --bool --default= --edit --file= --fixed-value --get --get-all --get-regexp --get-urlmatch --global --includes --int --list --local \
        --name-only --null --path --remove-section --rename-section --replace-all --show-origin --show-scope --system --type= --unset --unset-all --worktree",
    ),
    SubcommandSpec::new(
        "diff",
        "-a -b -B? -C? -D -G= -I= -l= -M? -O= -p -R -s -S= -u -U= -w -W -z --cached --check --color? --diff-filter= --exit-code --ext-diff --function-context --ignore-all-space \
        --merge-base --name-only --name-status --no-color --no-ext-diff --no-index --no-prefix --no-renames --numstat --output= --patch --patience --quiet --raw --relative? --shortstat --staged \
        --stat? --submodule? --summary --text --unified= --word-diff? --word-diff-regex=",
    ),
    SubcommandSpec::new(
        "difftool",
        "-d -g -t= -x$ -y --cached --dir-diff --extcmd$ --gui --no-gui --no-prompt --no-trust-exit-code --prompt --rotate-to= --skip-to= --staged --symlinks --tool= --tool-help~ \
        --trust-exit-code",
    ),
    SubcommandSpec::new(
        "fetch",
        "-4 -6 -a -f -j= -k -m -n -o= -p -P -q -t -u -v --all --append --atomic --deepen= --depth= --dry-run~ --filter= --force --jobs= --keep --multiple --no-tags --porcelain \
        --progress --prune --prune-tags --quiet --recurse-submodules? --refetch --refmap= --set-upstream --shallow-exclude= --shallow-since= --stdin --tags --unshallow --update-head-ok --update-shallow \
        --upload-pack= --verbose",
    ),
    SubcommandSpec::new(
        "filter-branch",
        "-d= -f --commit-filter$ --env-filter$ --force --index-filter$ --msg-filter$ --original= --parent-filter$ --prune-empty --setup$ --state-branch= \
        --subdirectory-filter= --tag-name-filter$ --tree-filter$",
    ),
    SubcommandSpec::new(
        "filter-repo",
        "-f --analyze --dry-run~ --force --invert-paths --mailmap= --message-callback= --path= --path-glob= --path-regex= --path-rename= --paths-from-file= --prune-empty= \
        --refs= --replace-message= --replace-refs= --replace-text= --strip-blobs-bigger-than= --strip-blobs-with-ids= --subdirectory-filter= --tag-rename= --to-subdirectory-filter=",
    ),
    SubcommandSpec::new(
        "gc",
        "-q --aggressive --auto --cruft --detach --force --keep-largest-pack --max-cruft-size= --no-prune --prune? --quiet",
    ),
    SubcommandSpec::new(
        "grep",
        "-a -A= -B= -c -C= -e= -E -f= -F -G -h -H -i -I -l -L -m= -n -o -O? -p -P -q -r -v -w -W -z --all-match --and --break --cached --color? --column --context= --count \
        --extended-regexp --fixed-strings --function-context --heading --ignore-case --line-number --max-depth= --name-only --no-index --not --only-matching --or --perl-regexp --quiet \
        --recurse-submodules --show-function --text --threads= --untracked --word-regexp",
    ),
    SubcommandSpec::new(
        "init",
        "-b= -q --bare --initial-branch= --object-format= --quiet --ref-format= --separate-git-dir= --shared? --template=",
    ),
    SubcommandSpec::new(
        "log",
        "-a -b -c -E -F -G= -g -i -L= -n= -p -P -q -s -S= -t -u -w -z --abbrev-commit --after= --all --author= --before= --branches? --cc --color? --committer= --date= --decorate? \
        --diff-filter= --first-parent --follow --format= --full-history --graph --grep= --left-right --max-count= --merges --name-only --name-status --no-color --no-merges --no-patch --numstat --oneline \
        --output= --patch --pretty? --remotes? --reverse --shortstat --show-signature --since= --skip= --stat? --summary --tags? --until=",
    ),
    SubcommandSpec::new(
        "merge",
        "-e -F= -m= -n -q -s= -S? -v -X= --abort --allow-unrelated-histories --autostash --commit --continue --edit --ff --ff-only --file= --gpg-sign? --log? --message= --no-commit \
        --no-edit --no-ff --no-rerere-autoupdate --no-verify --quiet --quit --signoff --squash --stat --strategy= --strategy-option= --verbose --verify-signatures",
    ),
    SubcommandSpec::new("mv", "-f -k -n~ -v --dry-run~ --force --verbose"),
    SubcommandSpec::new(
        "pull",
        "-4 -6 -a -e -f -k -n -o= -p -q -r? -s= -S? -t -v -X= --all --allow-unrelated-histories --autostash --commit --depth= --dry-run~ --edit --ff --ff-only --force --jobs= --no-commit \
        --no-edit --no-ff --no-rebase --no-tags --no-verify --prune --quiet --rebase? --recurse-submodules? --set-upstream --squash --strategy= --strategy-option= --tags --unshallow --verbose",
    ),
    SubcommandSpec::new(
        "push",
        "-4 -6 -d -f -n~ -o= -q -u -v --all --atomic --branches --delete --dry-run~ --exec= --follow-tags --force --force-if-includes --force-with-lease? --mirror --no-signed --no-thin \
        --no-verify --porcelain --progress --prune --push-option= --quiet --receive-pack= --recurse-submodules= --repo= --set-upstream --signed? --tags --thin --verbose --verify",
    ),
    SubcommandSpec::new(
        "rebase",
        "-C= -f -i -k -m -n -p -q -r? -s= -S? -v -x$ -X= --abort --apply --autosquash --autostash --committer-date-is-author-date --continue --edit-todo --empty= --exec$ --force-rebase \
        --fork-point --interactive --keep-base --keep-empty --merge --no-autosquash --no-autostash --no-ff --no-verify --onto= --quiet --quit --rebase-merges? --reset-author-date --root \
        --show-current-patch --signoff --skip --stat --strategy= --strategy-option= --update-refs --verbose --whitespace=",
    ),
    SubcommandSpec::new(
        "reflog expire",
        "-n~ --all --dry-run~ --expire= --expire-unreachable= --rewrite --single-worktree --stale-fix --updateref --verbose",
    ),
    SubcommandSpec::new(
        "reflog delete",
        "-n~ --dry-run~ --rewrite --updateref --verbose",
    ),
    SubcommandSpec::new(
        "remote add",
        "-f -m= -t= --fetch --mirror? --no-tags --tags",
    ),
    SubcommandSpec::new("remote prune", "-n~ --dry-run~"),
    SubcommandSpec::new("remote set-url", "--add --delete --push"),
    SubcommandSpec::new(
        "reset",
        "-N -p -q --hard --intent-to-add --keep --merge --mixed --no-quiet --no-refresh --no-recurse-submodules --patch --pathspec-file-nul --pathspec-from-file= --quiet --recurse-submodules \
        --refresh --soft",
    ),
    SubcommandSpec::new(
        "restore",
        "-2 -3 -U= --unified= --inter-hunk-context= -m -p -q -s= -S -W --conflict= --ignore-skip-worktree-bits --ignore-unmerged --merge --no-overlay --ours --overlay --patch --pathspec-file-nul --pathspec-from-file= \
        --progress --quiet --recurse-submodules --source= --staged --theirs --worktree",
    ),
    SubcommandSpec::new(
        "revert",
        "-e -m= -n -s -S? -X= --abort --continue --edit --mainline= --no-commit --no-edit --quit --reference --signoff --skip --strategy= --strategy-option=",
    ),
    SubcommandSpec::new(
        "rm",
        "-f -n~ -q -r --cached --dry-run~ --force --ignore-unmatch --pathspec-file-nul --pathspec-from-file= --quiet --sparse",
    ),
    SubcommandSpec::new(
        "show",
        "-p -q -s -w --abbrev-commit --color? --format= --name-only --name-status --no-patch --numstat --oneline --patch --pretty? --stat?",
    ),
    SubcommandSpec::new("stash drop", "-q --quiet"),
    SubcommandSpec::new(
        "stash push",
        "-a -k -m= -p -q -S -u --all --include-untracked --keep-index --message= --patch --pathspec-from-file= --quiet --staged",
    ),
    SubcommandSpec::new(
        "status",
        "-b -s -u? -v -z --ahead-behind --branch --column? --find-renames? --ignore-submodules? --ignored? --long --null --porcelain? --renames --short --show-stash --untracked-files? --verbose",
    ),
    SubcommandSpec {
        name: "submodule foreach",
        options: "--recursive",
        action: ProgramAction::Joined { operands: 0 },
    },
    SubcommandSpec::new("submodule deinit", "-f --all --force"),
    SubcommandSpec::new(
        "switch",
        "-c= -C= -d -f -m -q -t? --conflict= --create= --detach --discard-changes --force --force-create= --guess --ignore-other-worktrees --merge --no-guess --no-progress --no-track \
        --orphan= --progress --quiet --recurse-submodules? --track?",
    ),
    SubcommandSpec::new(
        "tag",
        "-a -d -e -f -F= -i -l -m= -n? -s -u= -v --annotate --cleanup= --color? --column? --contains? --create-reflog --delete --edit --file= --force --format= --ignore-case --list --local-user= \
        --merged? --message= --no-contains? --no-merged? --no-sign --points-at= --sign --sort= --trailer= --verify",
    ),
    SubcommandSpec::new(
        "update-ref",
        "-d -m= -z --create-reflog --deref --no-deref --stdin",
    ),
    SubcommandSpec::new(
        "worktree add",
        "-b= -B= -d -f -q --checkout --detach --force --guess-remote --lock --no-checkout --no-track --orphan --quiet --reason= --track",
    ),
    SubcommandSpec::new("worktree prune", "-n~ -v --dry-run~ --expire= --verbose"),
    SubcommandSpec::new("worktree remove", "-f --force"),
];

const GH: &[SubcommandSpec] = &[
    SubcommandSpec::new(
        "api",
        "-F= -f= -H= -i -p= -q= -t= -X= --cache= --field= --header= --hostname= --include --input= --jq= --method= --paginate --preview= --raw-field= --silent --slurp --template= --verbose",
    ),
    SubcommandSpec::new(
        "browse",
        "-a -b= -c? -n -r -s -w --actions --branch= --commit? --no-browser --releases --settings --wiki",
    ),
    SubcommandSpec::new(
        "issue create",
        "-a= -b= -e -F= -l= -m= -p= -t= -T= -w --assignee= --body= --body-file= --editor --label= --milestone= --project= --recover= --template= --title= --web",
    ),
    SubcommandSpec::new(
        "issue comment",
        "-b= -e -F= -w --body= --body-file= --edit-last --editor --web",
    ),
    SubcommandSpec::new("issue close", "-c= -r= --comment= --reason="),
    SubcommandSpec::new("issue delete", "--confirm --yes"),
    SubcommandSpec::new(
        "pr create",
        "-a= -B= -b= -d -e -F= -f -H= -l= -m= -p= -r= -t= -T= -w --assignee= --base= --body= --body-file= --draft --dry-run~ --editor --fill --fill-first --fill-verbose --head= --label= \
        --milestone= --no-maintainer-edit --project= --recover= --reviewer= --template= --title= --web",
    ),
    SubcommandSpec::new(
        "pr comment",
        "-b= -e -F= -w --body= --body-file= --edit-last --editor --web",
    ),
    SubcommandSpec::new("pr close", "-c= -d --comment= --delete-branch"),
    SubcommandSpec::new(
        "pr edit",
        "-b= -B= -F= -m= -t= --add-assignee= --add-label= --add-reviewer= --base= --body= --body-file= --milestone= --remove-label= --title=",
    ),
    SubcommandSpec::new(
        "pr merge",
        "-A= -b= -d -F= -m -r -s -t= --admin --author-email= --auto --body= --body-file= --delete-branch --disable-auto --match-head-commit= --merge --rebase --squash --subject=",
    ),
    SubcommandSpec::new(
        "pr review",
        "-a -b= -c -F= -r --approve --body= --body-file= --comment --request-changes",
    ),
    SubcommandSpec::new(
        "release create",
        "-d -F= -n= -p -t= --discussion-category= --draft --generate-notes --latest? --notes= --notes-file= --notes-from-tag --notes-start-tag= --prerelease --target= --title= --verify-tag",
    ),
    SubcommandSpec::new("release delete", "-y --cleanup-tag --yes"),
    SubcommandSpec::new(
        "repo create",
        "-c -d= -g= -h= -l= -p= -r= -s= -t= --add-readme --clone --description= --disable-issues --disable-wiki --gitignore= --homepage= --include-all-branches --internal --license= --private \
        --public --push --remote= --source= --team= --template=",
    ),
    SubcommandSpec::new("repo delete", "--confirm --yes"),
    SubcommandSpec::new(
        "repo edit",
        "-d= -h= --accept-visibility-change-consequences --add-topic= --default-branch= --description= --homepage= --remove-topic= --template --visibility=",
    ),
    SubcommandSpec::new(
        "secret set",
        "-a= -b= -e= -f= -o= -r= -u -v= --app= --body= --env= --env-file= --no-repos-selected --no-store --org= --repos= --user --visibility=",
    ),
    SubcommandSpec::new("run", ""),
    SubcommandSpec::new(
        "workflow run",
        "-F= -f= -r= --field= --json --raw-field= --ref=",
    ),
];
