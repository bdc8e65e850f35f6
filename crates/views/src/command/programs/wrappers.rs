//! Programs and builtins that run other commands. Sources: the manual of bash 5.2, the manuals of coreutils 9,
//! findutils 4.10, util-linux 2.40, procps 4, sudo 1.9, OpenDoas 6.8, OpenSSH 9.9, GNU parallel 2024, fd 10, and the
//! help of the other programs.

use super::super::program::{FlagStyle, ProgramAction, ProgramSpec, StdinShell};

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["sudo"], "-A -B -b -E -e~ -H -i -K~ -k -l~ -n -P -S -s -V~ -v~ -C= -c= -D= -g= -h= -p= -R= -r= -T= -t= -U= -u= \
        --askpass --background --bell --close-from= --chdir= --preserve-env? --edit~ --group= --help~ --host= --login \
        --list~ --non-interactive --preserve-groups --prompt= --chroot= --role= --stdin --shell --type= \
        --command-timeout= --other-user= --user= --validate~ --version~ --reset-timestamp --remove-timestamp~").runs(0)
        .stdin_shell(StdinShell::WithFlag("-i -s --login --shell")),
    ProgramSpec::new(&["doas"], "-C~ -L~ -n -s -a= -u=").runs(0).stdin_shell(StdinShell::WithFlag("-s")),
    ProgramSpec::new(&["command"], "-p -v~ -V~").runs(0),
    ProgramSpec::new(&["builtin", "nohup", "setsid", "unbuffer", "chronic", "busybox", "toybox", "fakeroot", "catchsegv", "winpty"],
        "-c -f -w --help~ --version~ --fork --wait --ctty").runs(0),
    ProgramSpec::new(&["exec"], "-a= -c -l").runs(0),
    ProgramSpec::new(&["nice"], "-n= --adjustment= --help~ --version~").runs(0),
    ProgramSpec::new(&["ionice"], "-c= -n= -p= -P= -u= -t --class= --classdata= --pid= --pgid= --uid= --ignore --help~ --version~").runs(0),
    ProgramSpec::new(&["chrt"], "-b -d -e -f -i -m -o -r -R -a -p -v -T= -P= -D= --batch --fifo --idle --other --rr").runs(1),
    ProgramSpec::new(&["taskset"], "-a -c -p --all-tasks --cpu-list --pid").runs(1),
    ProgramSpec::new(&["time", "gtime"], "-a -p -v -q -V~ -f= -o= --append --portability --verbose --quiet --format= --output= --help~ --version~").runs(0),
    ProgramSpec::new(&["timeout", "gtimeout"], "-f -k= -p -s= -v --foreground --kill-after= --preserve-status --signal= --verbose --help~ --version~").runs(1),
    ProgramSpec::new(&["stdbuf"], "-e= -i= -o= --error= --input= --output= --help~ --version~").runs(0),
    ProgramSpec::new(&["env", "genv"], "-i -0 -v -C= -S$ -u= --ignore-environment --null --unset= --chdir= --split-string$ --block-signal? \
        --default-signal? --ignore-signal? --list-signal-handling --debug --help~ --version~").runs(0),
    ProgramSpec::new(&["xargs", "gxargs"], "-0 -a= -d= -E= -e? -I= -i? -J= -L= -l? -n= -o -P= -p -R= -r -S= -s= -t -x --null --arg-file= \
        --delimiter= --eof? --replace? --max-lines? --max-args= --max-procs= --interactive --process-slot-var= \
        --no-run-if-empty --max-chars= --show-limits --verbose --exit --open-tty --help~ --version~").runs(0),
    ProgramSpec::new(&["parallel"], "-0 -a= -C= -d= -E= -I= -j= -k -L= -l? -m -N= -n= -P= -q -r -s= -S= -t -u -X -x --jobs= --arg-file= \
        --colsep= --delimiter= --keep-order --dry-run~ --dryrun~ --joblog= --results= --retries= --delay= --timeout= \
        --bar --eta --group --ungroup --line-buffer --lb --halt= --sshlogin= --pipe --block= --max-args= --max-replace-args= \
        --null --quote --tag --verbose --xargs --will-cite --citation~ --help~ --version~").joins(0),
    ProgramSpec::new(&["watch"], "-b -c -C -d? -e -g -n= -p -q= -r -t -w -x -v~ -h~ --beep --color --no-color --differences? --errexit --chgexit \
        --interval= --precise --equexit= --no-rerun --no-title --no-wrap --exec --help~ --version~").joins(0),
    ProgramSpec::new(&["eval"], "").joins(0),
    ProgramSpec::new(&["trap"], "-l~ -p~").action(ProgramAction::FirstOperand),
    ProgramSpec::new(&["source", "."], "").action(ProgramAction::Source),
    ProgramSpec::new(&["ssh", "autossh"], "-4 -6 -A -a -C -f -G~ -g -K -k -M -N~ -n -q -s -T -t -V~ -v -X -x -Y -y -B= -b= -c= -D= -E= -e= \
        -F= -I= -i= -J= -L= -l= -m= -O= -o# -P= -p= -Q~ -R= -S= -W= -w=").joins(1).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["sshpass"], "-d= -e -f= -h~ -p= -P= -v -V~").runs(0),
    ProgramSpec::new(&["mosh"], "-4 -6 -a -h~ -n -p= --bind-server= --client= --experimental-remote-ip= --family= --help~ --local --no-init --no-ssh-pty --port= --predict= --predict-overwrite --server= --ssh= --version~").runs(1),
    ProgramSpec::new(&["pssh", "parallel-ssh"], "-A -e= -g= -h= -H= -i -I -l= -o= -O# -p= -P -t= -v -x= -X= --askpass --errdir= --hosts= --host= --inline --option= --outdir= --par= --print --send-input --timeout= --user= --verbose --help~ --version~").joins(0),
    ProgramSpec::new(&["pdsh"], "-a -A -b -c= -d -f= -g= -h~ -i -I -k -l= -L~ -n= -N -q~ -R= -S -t= -u= -V~ -w= -x= -X=").joins(0),
    ProgramSpec::new(&["clush"], "-a -b -B -c= -d -f= -g= -G -h~ -l= -L -n -N -o= -O= -p= -q -r -R= -s -S -t= -u= -v -w= -x= -X= --all --conf= --connect_timeout= --copy --dest= --diff --fanout= --group= --hostfile= --mode= --nodes= --nostdin --option= --options= --quiet --user= --verbose --worker= --help~ --version~").joins(0),
    ProgramSpec::new(&["su"], "-c$ -f -g= -G= -l -m -P -p -s= -w= --command$ --session-command$ --fast --group= --supp-group= --login \
        --preserve-environment --pty --shell= --whitelist-environment= --help~ --version~").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["newgrp"], "-l").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["sg"], "-c$").joins(1).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["runuser"], "-c$ -u= -g= -G= -l -m -P -p -s= -w= --command$ --session-command$ --user= --group= --login --shell=").runs(1).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["pkexec"], "--user= --disable-internal-agent --keep-cwd --help~ --version~").runs(0),
    ProgramSpec::new(&["gosu", "su-exec", "setuidgid"], "").runs(1),
    ProgramSpec::new(&["wsl"], "-d= -u= -e -t= -l~ -v~ --distribution= --user= --cd= --exec --shell-type= --system --list~ --shutdown --terminate= --unregister= --status~ --help~ --version~").runs(0),
    ProgramSpec::new(&["systemd-nspawn"], "-a -b -D= -i= -j -M= -n -p= -q -S= -u= -U -x --as-pid2 --bind= --bind-ro= --boot --capability= --chdir= --console= --directory= --ephemeral --hostname= --image= \
        --machine= --network-veth --overlay= --pipe --private-network --private-users= --property= --quiet --register= --read-only --setenv= --template= --tmpfs= --user= --help~ --version~").runs(0),
    ProgramSpec::new(&["bwrap"], "--args= --argv0= --unshare-all --share-net --unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup --unshare-cgroup-try --userns= --uid= --gid= --hostname= \
        --chdir= --clearenv --setenv% --unsetenv= --lock-file= --sync-fd= --bind% --bind-try% --dev-bind% --dev-bind-try% --ro-bind% --ro-bind-try% --bind-fd% --ro-bind-fd% --remount-ro= --proc= --dev= --tmpfs= --mqueue= --dir= \
        --file% --bind-data% --ro-bind-data% --symlink% --chmod% --perms= --size= --seccomp= --exec-label= --file-label= --new-session --die-with-parent --as-pid-1 --cap-add= --cap-drop= --help~ --version~").runs(0),
    ProgramSpec::new(&["distrobox"], "-h~ -v --verbose --help~ --version~").subcommands(&[AFTER_ENTER]),
    ProgramSpec::new(&["distrobox-enter"], "-n= -e& -r -a= --name= --exec& --root --additional-flags= --no-tty --no-workdir --help~").action(ProgramAction::AfterSeparator),
    ProgramSpec::new(&["toolbox"], "-v -y --assumeyes --log-level= --help~ --version~")
        .subcommands(&[SubcommandSpec::runs("run", 0, "-c= -d= -r= --container= --distro= --release= --preserve-fds=")]),
    ProgramSpec::new(&["flatpak-spawn"], "--host --clear-env --watch-bus --latest-version --no-network --sandbox --env= --directory= --forward-fd= --sandbox-expose= --sandbox-expose-ro= --expose-pids --share-pids --verbose --help~").runs(0),
    ProgramSpec::new(&["script"], "-a -c$ -E= -e -f -I= -B= -O= -T= -m= -o= -q -t? --append --command$ --echo= --return --flush --force \
        --quiet --help~ --version~").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["flock"], "-c$ -E= -e -F -n -o -s -u -w= -x --command$ --conflict-exit-code= --exclusive --nonblock --nb --shared \
        --timeout= --unlock --wait= --verbose --help~ --version~").runs(1),
    ProgramSpec::new(&["chroot"], "--groups= --userspec= --skip-chdir --help~ --version~").runs(1).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["nsenter"], "-a -C? -F -G= -g? -i? -m? -N= -n? -p? -r? -S= -T? -t= -U? -u? -W= -w? -Z --all --target= --mount? --uts? \
        --ipc? --net? --pid? --user? --cgroup? --setuid= --setgid= --root? --wd? --no-fork").runs(0).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["unshare"], "-C? -c -f -i? -m? -n? -p? -r -T? -U? -u? -R= -S= -G= -w= --fork --map-root-user --mount? --mount-proc? --net? --pid? \
        --user? --root= --wd=").runs(0).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["caffeinate"], "-d -i -m -s -u -t= -w=").runs(0),
    ProgramSpec::new(&["setpriv"], "-d~ -h~ -V~ --ambient-caps= --apparmor-profile= --bounding-set= --clear-groups --dump~ --egid= --euid= --groups= --help~ --inh-caps= --init-groups \
        --keep-groups --landlock-access= --landlock-rule= --list-caps~ --no-new-privs --pdeathsig= --ptracer= --regid= --reset-env --reuid= --rgid= --ruid= --seccomp-filter= \
        --securebits= --selinux-label= --version~").runs(0),
    ProgramSpec::new(&["cpulimit"], "-b -c= -e= -f -h~ -i -l= -m -p= -P= -v -z --background --cpu= --exe= --foreground --help~ --include-children --lazy --limit= --monitor-forks --path= \
        --pid= --verbose").runs(0),
    ProgramSpec::new(&["faketime"], "-f -h~ -m -p= -v~ --date-prog= --disable-shm --exclude-monotonic --help~ --version~").runs(1),
    ProgramSpec::new(&["runcon"], "-c -l= -r= -t= -u= --compute --help~ --range= --role= --type= --user= --version~").runs(0),
    ProgramSpec::new(&["trickle"], "-d= -h~ -l= -L= -n= -s -t= -u= -v -V~ -w=").runs(0),
    ProgramSpec::new(&["eatmydata", "dumb-init", "tini"], "-c -e= -g -h~ -l~ -p= -r= -s -v -w -V~ --help~ --rewrite= --single-child --verbose --version~").runs(0),
    ProgramSpec::new(&["rlwrap"], "-a? -A? -b= -c -C= -d= -D= -e= -E -f= -g= -h~ -H= -i -I -l= -m? -M= -n -N -o -O= -p? -P= -q= -r -R -s= -S= -t= -T -u -U -v~ -w= -W? -X -z= --help~ \
        --version~").runs(0),
    ProgramSpec::new(&["retry"], "-d= -e= -h~ -m= -s= -t= -u= -v~ -x= --delay= --help~ --max= --min= --sleep= --times= --tries= --until= --version~").runs(0),
    ProgramSpec::new(&["gksu", "gksudo", "kdesu", "kdesudo"], "-a -d -g -k -l -m= -n -p -P -S -u= -w --description= --login --message= --preserve-env --su-mode --sudo-mode --user=").joins(0),
    ProgramSpec::new(&["heaptrack"], "-d -h~ -o= -p= -r -v~ --asan --debug --help~ --output= --pid= --raw --use-inject --version~").runs(0),
    ProgramSpec::new(&["rr"], "").subcommands(&[SubcommandSpec::runs("record", 0, "-c= -F= -h -i= -M -n -N -o= -s= -S -t= -u -v= -w --chaos --env= --ignore-signal= --no-syscall-buffer --output-trace-dir= \
        --print-trace-dir= --wait")]),
    ProgramSpec::new(&["lima"], "").runs(0),
    ProgramSpec::new(&["limactl"], "--debug --log-level= --tty -y").subcommands(&[SubcommandSpec::runs("shell", 1, "--preserve-env --shell= --start --workdir="), SubcommandSpec::new("delete", "-f --force")]),
    ProgramSpec::new(&["multipass"], "-h~ -v --help~").subcommands(&[SubcommandSpec::runs("exec", 1, "-d= -n --no-map-working-directory --working-directory="), SubcommandSpec::new("delete", "-p --all --purge")]),
    ProgramSpec::new(&["guix"], "-h~ -V~ --help~ --version~").subcommands(&[
        SubcommandSpec { name: "shell", options: GUIX, action: ProgramAction::AfterSeparator }, SubcommandSpec { name: "environment", options: GUIX, action: ProgramAction::AfterSeparator }]),
    ProgramSpec::new(&["envchain"], "--list~ -l~ --set -s --unset").runs(1),
    ProgramSpec::new(&["teller"], "-c= -h~ --config= --help~").subcommands(&[SubcommandSpec::runs("run", 0, "-r -s --redact --reset --shell --sh")]),
    ProgramSpec::new(&["sops"], "-d -e -h~ -i -r -s -v~ --config= --decrypt --encrypt --help~ --in-place --input-type= --output= --output-type= --version~").subcommands(&[
        SubcommandSpec { name: "exec-env", options: "--background --pristine --same-process --user=", action: ProgramAction::Joined { operands: 1 } },
        SubcommandSpec { name: "exec-file", options: "--background --filename= --no-fifo --user=", action: ProgramAction::Joined { operands: 1 } }]),
    ProgramSpec::new(&["nu"], "-c$ -e$ -i -l -n -t= -v~ -h~ --commands$ --config= --env-config= --execute$ --help~ --interactive --login --no-config-file --no-history --no-newline --stdin \
        --version~").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["prlimit", "systemd-run", "systemd-inhibit", "firejail", "proxychains", "proxychains4", "torsocks",
        "torify", "dbus-run-session", "xvfb-run", "aoss", "rtk", "i386", "linux32", "linux64"],
        "-q -n= -u= -p= -t -d -s -i -m -E= -M= -H= -G= --user --scope --pty --pipe --wait --collect --unit= --property= --uid= --gid= --setenv= \
        --what= --who= --why= --mode= --quiet --help~ --version~").runs(0),
    ProgramSpec::new(&["cgexec"], "-b -g= --sticky").runs(0),
    ProgramSpec::new(&["proot"], "-0 -b= -h~ -i= -k= -q= -r= -R= -S= -v= -V~ -w= --bind= --change-id= --cwd= --kernel-release= --kill-on-exit --link2symlink --mixed-mode= --pwd= --qemu= --root-id --rootfs= --verbose= --help~ --version~").runs(0),
    // On macOS; on Linux it prints the architecture.
    ProgramSpec::new(&["arch"], "-32 -64 -arch= -arm64 -arm64e -c -d= -e= -h~ -i386 -x86_64 -x86_64h --help~ --version~").style(FlagStyle::Words).runs(0),
    ProgramSpec::new(&["numactl"], "-a -b -C= -i= -l -m= -N= -p= -P= -t -H~ -s~ --all --balancing --cpunodebind= --hardware~ --interleave= --localalloc --membind= --physcpubind= --preferred= --show~ --touch").runs(0),
    ProgramSpec::new(&["setarch"], "-3 -B -F -I -L -p? -R -S -T -v -X -Z --32bit --3gb --addr-no-randomize --list~ --verbose --help~ --version~").runs(1),
    ProgramSpec::new(&["valgrind"], "-d -h~ -q -v --tool= --leak-check= --quiet --verbose --help~ --version~").runs(0),
    ProgramSpec::new(&["perf"], "-h~ -v~ --help~ --version~").subcommands(&[SubcommandSpec::runs("stat", 0, PERF), SubcommandSpec::runs("record", 0, PERF), SubcommandSpec::runs("trace", 0, PERF)]),
    ProgramSpec::new(&["lldb"], "-b -c= -f= -h~ -k# -K= -n= -o# -O# -p= -Q -r= -s= -S= -v~ -w -x -X --arch= --attach-name= --attach-pid= --batch --core= --file= --help~ --no-lldbinit \
        --one-line# --one-line-before-file# --source= --version~ --wait-for").action(ProgramAction::AfterSeparator),
    ProgramSpec::new(&["gdb"], "-args! --args! -batch --batch -cd= -command= -x= -ex# -eval-command# --eval-command# -o# -p= -q --quiet -nx -iex# -help~ --help~ -version~ --version~").style(FlagStyle::Words),
    ProgramSpec::new(&["nodemon"], "-C -d= -e= -i= -I -L -q -V -w= -x$ --config= --cwd= --delay= --exec$ --ext= --ignore= --quiet --signal= --verbose --watch= --help~ --version~"),
    ProgramSpec::new(&["concurrently"], "-c= -g -h~ -i -k -l= -m= -n= -p= -P -r -s= -t= -v~ --group --kill-others --kill-others-on-fail --max-processes= --names= --prefix= --prefix-colors= --raw --restart-after= --restart-tries= \
        --success= --timings --help~ --version~").action(ProgramAction::EachOperand),
    ProgramSpec::new(&["cross-env"], "").runs(0),
    ProgramSpec::new(&["cross-env-shell"], "").joins(0),
    ProgramSpec::new(&["conda", "mamba", "micromamba"], "-h~ -v -V~ --help~ --version~")
        .groups("env config")
        .subcommands(&[SubcommandSpec::runs("run", 0, "-n= -p= -v -a= --name= --prefix= --cwd= --attach= --no-capture-output --live-stream --dev --verbose"),
            SubcommandSpec::new("install", "-n= -p= -c= -y --name= --prefix= --channel= --file= --yes"), SubcommandSpec::new("remove", "-n= -p= -y --all --name= --prefix= --force --yes"),
            SubcommandSpec::new("env remove", "-n= -p= -y --name= --prefix= --yes"), SubcommandSpec::new("clean", "-a -y --all --yes")]),
    ProgramSpec::new(&["pixi"], "-h~ -q -v -V~ --color= --no-progress --help~ --version~")
        .subcommands(&[SubcommandSpec::runs("run", 0, "-e= -m= -x --environment= --manifest-path= --frozen --locked --clean-env --as-is --executable --skip-deps"),
            SubcommandSpec::runs("exec", 0, "-c= -s= -w= -p= --channel= --spec= --with= --platform= --force-reinstall")]),
    ProgramSpec::new(&["ltrace"], "-a= -A= -b -c -C -D= -e= -f -F= -h~ -i -l= -L -n= -o= -p= -r -s= -S -t -T -u= -V~ -w= -x= --demangle --help~ --output= --version~").runs(0),
    ProgramSpec::new(&["strace", "gdbserver"], "-a= -b= -c -C -d -D -e= -E= -f -F -i -I= -k -o= -O= -p= -P= -q -r -s= -S= -t -T -u= \
        -U= -v -V~ -w -x -X= -y -Y -z -Z --output= --trace=").runs(0),
    ProgramSpec::new(&["entr"], "-a -c -d -n -p -r -s$ -x -z").runs(0),
    ProgramSpec::new(&["watchexec"], "-1 -c? -d= -e= -f= -h~ -i= -I -n -N -o= -p -q -r -s= -v -V~ -w= -W= --clear? --color= --debounce= --delay-run= --emit-events-to= --env= --exts= --filter= --filter-file= --fs-events= --ignore= --ignore-file= --map-signal= --no-default-ignore --no-global-ignore \
        --no-process-group --no-project-ignore --no-vcs-ignore --notify --on-busy-update= --only-emit-events --poll? --postpone --print-events --project-origin= --quiet --restart --shell= --signal= --stdin-quit --stop-signal= --stop-timeout= --timings --verbose --watch= --watch-non-recursive= --workdir= --wrap-process= --help~ --version~").joins(0),
    ProgramSpec::new(&["hyperfine"], "-w= -r= -m= -M= -p$ -s$ -c$ -S= -i -N -u= -n= -L= --warmup= --runs= --prepare$ --setup$ --cleanup$ --shell= \
        --export-json= --export-markdown= --ignore-failure --show-output --style=").action(ProgramAction::EachOperand),
    ProgramSpec::new(&["find", "gfind"], "-exec! -execdir! -ok! -okdir! -delete -maxdepth= -mindepth= -name= -iname= -path= -ipath= -wholename= \
        -regex= -iregex= -type= -xtype= -size= -mtime= -atime= -ctime= -mmin= -amin= -cmin= -newer= -user= -group= -uid= \
        -gid= -perm= -links= -inum= -samefile= -lname= -ilname= -fstype= -printf= -fprintf= -fprint= -fprint0= -fls= \
        -newermt= -newerct= -newerat= -regextype= -D= -o -a -or -and -not -empty -print -print0 -prune -quit -ls -depth -d \
        -daystart -follow -H -L -P -mount -xdev -noleaf -readable -writable -executable -true -false -used= -nouser \
        -nogroup -ignore_readdir_race -warn -nowarn -context= -anewer= -cnewer= --help~ --version~").style(FlagStyle::Words),
    ProgramSpec::new(&["fd", "fdfind"], "-x! -X! --exec! --exec-batch! -H -I -u -s -i -g -F -a -l -L -p -0 -d= -t= -e= -S= -E= -c= -j= -o= -1 -q \
        --hidden --no-ignore --unrestricted --case-sensitive --ignore-case --glob --regex --fixed-strings --and= \
        --absolute-path --list-details --follow --full-path --print0 --max-depth= --min-depth= --exact-depth= --prune \
        --type= --extension= --size= --changed-within= --changed-before= --owner= --exclude= --color= --threads= \
        --max-results= --base-directory= --search-path= --ignore-file= --help~ --version~"),
    ProgramSpec::new(&["export", "declare", "typeset", "local", "readonly"], "-a -A -f -F -g -i -I -l -n -p -r -t -u -x").action(ProgramAction::Assignments),
    ProgramSpec::new(&["echo"], "").action(ProgramAction::Echo),
    ProgramSpec::new(&["printf"], "").action(ProgramAction::Echo),
    ProgramSpec::new(&["npx", "bunx", "pnpx"], "-y -q -p= -c$ --yes --no --no-install --quiet --ignore-existing --package= --call$ --workspace= \
        --bun --help~ --version~").runs(0),
    ProgramSpec::new(&["uvx"], "-p= --from= --with= --with-editable= --python= -q -v --quiet --verbose --isolated --help~ --version~").runs(0),
    ProgramSpec::new(&["nix-shell"], "-p= -I= --run$ --command$ --pure --packages= --attr= -A= -E=").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["dotenv", "dotenvx"], "-c -e= -f= -h~ -o -p= -v= -q= --env-file= --export= --overload --override --quote= --help~ --version~").runs(0)
        .subcommands(&[SubcommandSpec::runs("run", 0, "-f= -e= -q --env-file= --env= --convention= --overload --override --no-override --quiet"), SubcommandSpec::new("list", ""),
            SubcommandSpec::new("set", ""), SubcommandSpec::new("get", ""), SubcommandSpec::new("unset", ""), SubcommandSpec::new("encrypt", ""), SubcommandSpec::new("decrypt", "")]),
    ProgramSpec::new(&["direnv"], "").subcommands(&[SubcommandSpec::runs("exec", 1, "")]),
    ProgramSpec::new(&["aws-vault"], "--debug --backend= --prompt= --help~ --version~").subcommands(&[SubcommandSpec::runs("exec", 1, "-d= -n -j -r= -s -t= --duration= --no-session --json --region= --server --lazy --stdout --ec2-server --ecs-server --mfa-token=")]),
    ProgramSpec::new(&["chamber"], "-b= -r= -v --backend= --retries= --verbose --help~").subcommands(&[SubcommandSpec {
        name: "exec", options: "--pristine --strict --strict-value=", action: ProgramAction::AfterSeparator }]),
    ProgramSpec::new(&["mise", "rtx"], "-C= -E= -h~ -j= -q -v -V~ -y --cd= --env= --help~ --jobs= --quiet --verbose --version~ --yes").subcommands(&[
        SubcommandSpec { name: "exec", options: MISE, action: ProgramAction::AfterSeparator }, SubcommandSpec { name: "x", options: MISE, action: ProgramAction::AfterSeparator },
        SubcommandSpec::new("run", "-f -j= -n -o= -t= --force --output=")]),
    ProgramSpec::new(&["op", "infisical", "doppler", "asdf", "pyenv", "rbenv", "nvm"],
        "-f= -e= -p= --env-file= --config= --project= --account= --vault= --help~ --version~").groups("").subcommands(EXEC),
];

use super::super::program::SubcommandSpec;

const EXEC: &[SubcommandSpec] = &[
    SubcommandSpec::runs(
        "run",
        0,
        "-f= -p= -c= --config= --project= --env-file= --env= --path= --projectId= --token= --tags= --watch --expand --recursive --preserve-env --name-transformer= \
        --fallback= --mount= --no-masking --command$",
    ),
    SubcommandSpec::runs("exec", 0, "-n -d= --duration= --no-session --prompt="),
];

const MISE: &str = "-c$ -j= --command$ --jobs= --raw --no-prepare";

const GUIX: &str = "-C -D -e= -f= -F -K -L= -m= -M= -N -p= -P -r= -u= -v= -W --container --check --development --emulate-fhs --expose= --file= --manifest= --network --preserve= --profile= \
    --pure --root= --share= --system= --user=";

const AFTER_ENTER: SubcommandSpec = SubcommandSpec {
    name: "enter",
    options: "-n= -e& -r -a= --name= --exec& --root --additional-flags= --no-tty --no-workdir",
    action: ProgramAction::AfterSeparator,
};

const PERF: &str = "-a -A -c= -C= -d -e= -F= -g -G= -i -I= -j= -m= -n -o= -p= -q -r= -s -t= -T -u= -v -x= --all-cpus --call-graph= --cpu= \
    --delay= --event= --freq= --output= --pid= --quiet --repeat= --tid= --verbose";
