//! Package managers and build tools. Sources: the help of npm 10, pnpm 9, yarn 4, pip 24, uv 0.5, cargo 1.83,
//! apt 2.9, dnf 5, pacman 7, Homebrew 4, gem 3.6, poetry 1.8.

use super::super::program::{ProgramAction, ProgramSpec, SubcommandSpec};

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["npm", "cnpm"], "-C= -d -D -E -f -g -h~ -l -O -P -p -q -s -S -v~ -w= -y --access= --audit --cache= --dry-run~ --force --global --ignore-scripts --include= --json --legacy-peer-deps --location= --loglevel= --no-audit \
        --no-fund --no-git-tag-version --no-save --omit= --otp= --prefer-offline --prefix= --production --registry= --save --save-dev --save-exact --save-optional --save-peer --scope= --silent --tag= --userconfig= --workspace= \
        --workspaces --yes --help~ --version~")
        .groups("access audit cache config dist-tag hook org owner profile team token pkg")
        .subcommands(&[SubcommandSpec::runs("exec", 0, "-c$ --call$ --package="), SubcommandSpec::runs("x", 0, "-c$ --call$ --package="), SubcommandSpec::new("run", ""), SubcommandSpec::new("publish", ""), SubcommandSpec::new("unpublish", ""),
            SubcommandSpec::new("deprecate", ""), SubcommandSpec::new("install", ""), SubcommandSpec::new("ci", ""), SubcommandSpec::new("uninstall", ""), SubcommandSpec::new("token revoke", ""), SubcommandSpec::new("owner rm", ""), SubcommandSpec::new("cache clean", "")]),
    ProgramSpec::new(&["pnpm"], "-C= -D -E -F= -g -h~ -O -P -r -v~ -w --dir= --dry-run~ --filter= --force --frozen-lockfile --global --ignore-scripts --no-frozen-lockfile --offline --prod --recursive --reporter= --silent --store-dir= \
        --workspace-root --help~ --version~")
        .groups("store")
        .subcommands(&[SubcommandSpec::runs("exec", 0, "-c --parallel --shell-mode"), SubcommandSpec::runs("dlx", 0, "-c --package= --shell-mode"), SubcommandSpec::new("run", "--parallel --if-present"), SubcommandSpec::new("publish", "--access= --tag= --no-git-checks --otp= --publish-branch="), SubcommandSpec::new("remove", ""), SubcommandSpec::new("store prune", "--force")]),
    ProgramSpec::new(&["yarn", "yarnpkg"], "--cwd= --json --silent --verbose --offline --frozen-lockfile --ignore-scripts --production --registry= --help~ --version~")
        .groups("cache config global npm workspaces plugin")
        .subcommands(&[SubcommandSpec::runs("dlx", 0, "-p= -q --package= --quiet"), SubcommandSpec::runs("exec", 0, ""), SubcommandSpec::new("publish", "--access= --tag= --otp= --new-version="), SubcommandSpec::new("remove", "-A --all"), SubcommandSpec::new("cache clean", "--all --mirror")]),
    ProgramSpec::new(&["pip", "pipx"], "-h~ -q -v -V~ --cache-dir= --cert= --disable-pip-version-check --isolated --log= --no-cache-dir --no-color --no-input --proxy= --python= --quiet --require-virtualenv --retries= --timeout= --trusted-host= --verbose --help~ --version~")
        .groups("cache config")
        .subcommands(&[SubcommandSpec::new("install", "-b= -c= -e= -f= -i= -I -r= -t= -U --break-system-packages --constraint= --dry-run~ --editable= --extra-index-url= --find-links= --force-reinstall --ignore-installed --index-url= --no-deps --no-index --only-binary= \
            --platform= --pre --prefix= --report= --requirement= --root= --target= --upgrade --upgrade-strategy= --user --global-option= --config-settings="), SubcommandSpec::new("uninstall", "-r= -y --break-system-packages --requirement= --root-user-action= --yes"),
            SubcommandSpec::runs("run", 0, "--spec= --pip-args= --no-cache"), SubcommandSpec::new("cache purge", "")]),
    ProgramSpec::new(&["uv"], "-h~ -n -q -v -V~ --allow-insecure-host= --cache-dir= --color= --config-file= --directory= --native-tls --no-cache --no-config --no-progress --no-python-downloads --offline --project= --quiet --verbose --help~ --version~")
        .groups("cache pip python tool self")
        .subcommands(&[SubcommandSpec::runs("run", 0, "-C= -i= -m -n -p= -s -w= -U -P= --active --all-extras --all-groups --all-packages --default-index= --env-file= --exact --extra= --extra-index-url= --frozen --group= --gui-script --index= --index-url= \
            --isolated --locked --module --no-dev --no-env-file --no-group= --no-project --no-sync --only-dev --only-group= --package= --python= --refresh --reinstall --resolution= --script --upgrade --with= --with-editable= --with-requirements="),
            SubcommandSpec::runs("tool run", 0, "-p= -w= --from= --with= --python= --isolated"), SubcommandSpec::new("publish", "-t= -u= -p= --dry-run~ --index= --publish-url= --token= --username= --password="), SubcommandSpec::new("cache clean", ""), SubcommandSpec::new("pip uninstall", "-r= -y --requirements= --system --python= --dry-run~")]),
    ProgramSpec::new(&["poetry", "pdm", "hatch", "pipenv", "rye"], "-C= -h~ -n -q -v -V~ -P= --ansi --directory= --project= --no-ansi --no-cache --no-interaction --no-plugins --quiet --verbose --help~ --version~")
        .groups("cache config env self source")
        .subcommands(&[SubcommandSpec::runs("run", 0, ""), SubcommandSpec::new("publish", "-r= -u= -p= --build --cert= --client-cert= --dist-dir= --dry-run~ --password= --repository= --skip-existing --username="), SubcommandSpec::new("cache clear", "--all"), SubcommandSpec::new("env remove", "--all")]),
    ProgramSpec::new(&["cargo"], "-C= -h~ -q -v -V~ -Z= --color= --config= --explain= --frozen --list --locked --offline --quiet --verbose --help~ --version~")
        .subcommands(&[SubcommandSpec::new("build", "-F= -j= -p= -r --all --all-features --all-targets --bin= --bins --example= --examples --exclude= --features= --jobs= --keep-going --lib --manifest-path= --message-format= --no-default-features --package= --profile= --release --target= --target-dir= --test= --tests --timings? --workspace"),
            SubcommandSpec::new("publish", "-F= -j= -n~ -p= --all-features --allow-dirty --dry-run~ --exclude= --features= --index= --manifest-path= --no-default-features --no-verify --package= --registry= --target= --target-dir= --token= --workspace"),
            SubcommandSpec::new("yank", "--index= --registry= --token= --undo --vers= --version="), SubcommandSpec::new("owner", "-a= -l -r= --add= --index= --list --registry= --remove= --token="), SubcommandSpec::new("clean", "-p= -r -n~ --doc --dry-run~ --manifest-path= --package= --profile= --release --target= --target-dir= --workspace"),
            SubcommandSpec::new("install", "-F= -f -j= --all-features --bin= --bins --branch= --debug --features= --force --git= --index= --list --locked --no-default-features --no-track --path= --profile= --registry= --rev= --root= --tag= --target= --version="), SubcommandSpec::new("uninstall", "-p= --bin= --package= --root="),
            SubcommandSpec::new("run", "-F= -j= -p= -r --all-features --bin= --example= --features= --manifest-path= --no-default-features --package= --profile= --release --target= --target-dir="), SubcommandSpec::new("test", "-F= -j= -p= -r --all --all-features --all-targets --bin= --bins --doc --example= --exclude= --features= --jobs= --lib --manifest-path= --no-default-features --no-fail-fast --no-run --package= --profile= --release --target= --test= --tests --workspace")]),
    ProgramSpec::new(&["apt", "apt-get", "aptitude"], "-a= -c= -d -f -h~ -m -o= -q? -s~ -t= -u -V -v~ -y --allow-downgrades --allow-remove-essential --allow-unauthenticated --assume-no --assume-yes --auto-remove --autoremove --config-file= --download-only --dry-run~ --fix-broken --fix-missing \
        --force-yes --ignore-hold --ignore-missing --just-print~ --no-act~ --no-download --no-install-recommends --no-remove --only-upgrade --option= --purge --quiet? --recon~ --reinstall --simulate~ --target-release= --yes --help~ --version~").groups("none"),
    ProgramSpec::new(&["dnf", "yum", "apk", "snap", "flatpak", "port"], "-c= -d= -e= -h~ -q -v -x= -y -C -R= --assumeno~ --assumeyes --best --classic --config= --disablerepo= --enablerepo= --exclude= --installroot= --nogpgcheck --non-interactive --noninteractive --no-cache --purge --quiet --repo= --root= --skip-broken --verbose --help~ --version~").groups("none"),
    ProgramSpec::new(&["zypper"], "-A -c= -D= -h~ -i -n -p= -q -R= -t= -v -V~ -x -y -f -l -u --cache-dir= --config= --disable-repositories --gpg-auto-import-keys --installroot= --no-confirm \
        --no-gpg-checks --no-refresh --non-interactive --non-interactive-include-reboot-patches --plus-repo= --quiet --reposd-dir= --root= --verbose --xmlout --clean-deps \
        --dry-run~ --force --help~ --version~").groups("none"),
    ProgramSpec::new(&["pacman", "yay", "paru"], "-b= -c -d -D -F -g -h~ -i -k -l -n -o -p~ -Q -q -r= -R -s -S -t -T -u -U -v -V~ -w -y --asdeps --cascade --clean --dbpath= --ignore= --needed --noconfirm --nodeps --nosave --overwrite= --print~ --query --recursive --refresh --remove --root= --search --sync --sysupgrade --unneeded --upgrade --help~ --version~"),
    ProgramSpec::new(&["brew"], "-d -f -h~ -q -v --cask --debug --dry-run~ --force --formula --ignore-dependencies --quiet --verbose --zap --help~ --version~").groups("services bundle tap-info"),
    ProgramSpec::new(&["gem", "bundle", "bundler"], "-a -f -h~ -i= -I -k= -n= -N -p= -q -v= -V -x --all --executables --force --host= --ignore-dependencies --install-dir= --key= --otp= --platform= --undo --version= --help~")
        .subcommands(&[SubcommandSpec::runs("exec", 0, "--keep-file-descriptors"), SubcommandSpec::new("install", "--local --no-document --user-install --path= --deployment --without="), SubcommandSpec::new("uninstall", ""), SubcommandSpec::new("push", ""), SubcommandSpec::new("yank", ""), SubcommandSpec::new("owner", "-r= -a= --remove= --add=")]),
    ProgramSpec::new(&["go"], "-C=").style(super::super::program::FlagStyle::Words)
        .groups("mod work tool")
        .subcommands(&[SubcommandSpec::new("clean", "-i -r -n~ -x -cache -testcache -modcache -fuzzcache"), SubcommandSpec::new("run", "-race -tags= -exec= -mod= -ldflags="), SubcommandSpec::new("test", "-run= -count= -timeout= -tags= -v -race -cover -coverprofile= -bench= -exec= -short"),
            SubcommandSpec::new("build", "-o= -v -race -tags= -ldflags= -gcflags= -mod= -trimpath"), SubcommandSpec::new("install", "-v -tags= -ldflags="), SubcommandSpec::new("generate", "-run= -n~ -v -x")]),
    ProgramSpec::new(&["make", "gmake", "ninja", "just", "task"], "-b -B -C= -d -e -f= -h~ -i -I= -j? -k -l? -m -n~ -o= -O? -p -q -r -R -s -S -t -v~ -w -W= --always-make --directory= --dry-run~ --file= --jobs? --just-print~ --keep-going --quiet --recon~ --silent --help~ --version~"),
    ProgramSpec::new(&["twine"], "--no-color --help~ --version~").subcommands(&[SubcommandSpec::new("upload", "-c= -i= -p= -r= -s -u= --cert= --client-cert= --comment= --config-file= --disable-progress-bar --identity= --non-interactive --password= --repository= --repository-url= --sign --skip-existing --username= --verbose")]),
    ProgramSpec::new(&["mvn", "mvnw", "sbt"], "-B -D= -f= -h~ -o -P= -pl= -q -T= -U -v~ -x= --batch-mode --file= --offline --quiet --info --help~ --version~"),
    ProgramSpec::new(&["gradle", "gradlew"], "-a -b= -c= -D? -d -F= -g= -h~ -I= -i -m~ -P? -p= -q -S -s -t -u -V~ -v~ -w -x= --build-cache --build-file= --configuration-cache --console= \
        --continue --daemon --debug --dry-run~ --exclude-task= --gradle-user-home= --include-build= --info --init-script= --max-workers= --no-daemon --offline --parallel --project-cache-dir= \
        --project-dir= --quiet --refresh-dependencies --rerun-tasks --scan --settings-file= --stacktrace --warning-mode= --help~ --version~"),
    ProgramSpec::new(&["nix"], "--extra-experimental-features= --help~ --version~").subcommands(&[SubcommandSpec { name: "develop", options: "-c! --command!", action: ProgramAction::None }, SubcommandSpec { name: "shell", options: "-c! --command!", action: ProgramAction::None }, SubcommandSpec::new("run", "-f= --impure")]),
];
