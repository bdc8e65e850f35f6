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
    ProgramSpec::new(&["builtin", "nohup", "setsid", "unbuffer", "busybox", "toybox", "fakeroot", "catchsegv", "winpty"],
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
        -F= -I= -i= -J= -L= -l= -m= -O= -o= -P= -p= -Q~ -R= -S= -W= -w=").joins(1).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["su"], "-c$ -f -g= -G= -l -m -P -p -s= -w= --command$ --session-command$ --fast --group= --supp-group= --login \
        --preserve-environment --pty --shell= --whitelist-environment= --help~ --version~").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["newgrp"], "-l").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["sg"], "-c$").joins(1).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["runuser"], "-c$ -u= -g= -G= -l -m -P -p -s= -w= --command$ --session-command$ --user= --group= --login --shell=").runs(0),
    ProgramSpec::new(&["script"], "-a -c$ -E= -e -f -I= -B= -O= -T= -m= -o= -q -t? --append --command$ --echo= --return --flush --force \
        --quiet --help~ --version~").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["flock"], "-c$ -E= -e -F -n -o -s -u -w= -x --command$ --conflict-exit-code= --exclusive --nonblock --nb --shared \
        --timeout= --unlock --wait= --verbose --help~ --version~").runs(1),
    ProgramSpec::new(&["chroot"], "--groups= --userspec= --skip-chdir --help~ --version~").runs(1).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["nsenter"], "-a -C? -F -G= -g? -i? -m? -N= -n? -p? -r? -S= -T? -t= -U? -u? -W= -w? -Z --all --target= --mount? --uts? \
        --ipc? --net? --pid? --user? --cgroup? --setuid= --setgid= --root? --wd? --no-fork").runs(0).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["unshare"], "-C? -c -f -i? -m? -n? -p? -r -T? -U? -u? -R= -S= -G= -w= --fork --map-root-user --mount? --mount-proc? --net? --pid? \
        --user? --root= --wd=").runs(0).stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["setpriv", "prlimit", "systemd-run", "systemd-inhibit", "firejail", "bwrap", "proxychains", "proxychains4", "torsocks",
        "torify", "caffeinate", "dbus-run-session", "xvfb-run", "aoss", "rtk", "numactl", "cgexec", "setarch", "i386", "linux32", "linux64"],
        "-q -n= -u= -p= -t -d -s -i -m -E= -M= -H= -G= --user --scope --pty --pipe --wait --collect --unit= --property= --uid= --gid= --setenv= \
        --what= --who= --why= --mode= --quiet --help~ --version~").runs(0),
    ProgramSpec::new(&["strace", "ltrace", "gdbserver"], "-a= -b= -c -C -d -D -e= -E= -f -F -i -I= -k -o= -O= -p= -P= -q -r -s= -S= -t -T -u= \
        -U= -v -V~ -w -x -X= -y -Y -z -Z --output= --trace=").runs(0),
    ProgramSpec::new(&["entr"], "-a -c -d -n -p -r -s -x -z").runs(0),
    ProgramSpec::new(&["hyperfine"], "-w= -r= -m= -M= -p$ -s$ -c$ -S= -i -N -u= -n= -L= --warmup= --runs= --prepare$ --setup$ --cleanup$ --shell= \
        --export-json= --export-markdown= --ignore-failure --show-output --style=").action(ProgramAction::FirstOperand),
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
    ProgramSpec::new(&["dotenv", "dotenvx", "direnv", "aws-vault", "op", "chamber", "doppler", "mise", "asdf", "rtx", "pyenv", "rbenv", "nvm"],
        "-f= -e= -p= --env-file= --config= --project= --account= --vault= --help~ --version~").groups("").subcommands(EXEC),
];

use super::super::program::SubcommandSpec;

const EXEC: &[SubcommandSpec] = &[
    SubcommandSpec::runs(
        "run",
        0,
        "-f= -p= -c= --config= --project= --env-file= --command$",
    ),
    SubcommandSpec::runs("exec", 0, "-n -d= --duration= --no-session --prompt="),
];
