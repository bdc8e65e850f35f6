//! Services, processes, users and disks of a system. Sources: the manuals of systemd 256, procps 4, shadow 4.16,
//! cryptsetup 2.7, LVM 2.03, OpenZFS 2.2, iptables 1.8, util-linux 2.40.

use super::super::program::{FlagStyle, ProgramSpec, StdinShell, SubcommandSpec};

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["systemctl"], "-a -f -H= -h~ -i -l -M= -n= -o= -p= -P= -q -r -s= -t= -T --all --check-inhibitors= --dry-run~ --failed --firmware-setup --force --full --global --host= --job-mode= --kill-who= --kill-whom= --lines= --machine= --no-ask-password --no-block --no-legend --no-pager \
        --no-reload --no-wall --now --output= --property= --quiet --recursive --reverse --root= --runtime --show-types --signal= --state= --system --type= --user --value --wait --what= --when= --help~ --version~").groups("none"),
    ProgramSpec::new(&["service"], "--status-all --full-restart --help~ --version~"),
    ProgramSpec::new(&["journalctl"], "-a -b? -c= -D= -e -f -F= -g= -k -m -n= -N -o= -p= -q -r -S= -t= -u= -U= -x --boot? --disk-usage --flush --follow --no-pager --output= --priority= --rotate --since= --sync --unit= --until= --user --vacuum-files= --vacuum-size= --vacuum-time= --help~ --version~"),
    ProgramSpec::new(&["kill"], "-l~ -L~ -n= -p -q= -s= --list? --queue= --signal= --table --timeout= --verbose"),
    ProgramSpec::new(&["pkill", "pgrep"], "-a -c -d= -e -f -F= -g= -G= -H -i -l -L -n -o -O= -P= -q= -s= -t= -u= -U= -v -w -x --count --echo --euid= --exact --full --group= --ignore-case --inverse --list-full --list-name --newest --ns= --nslist= --oldest --older= --parent= --pidfile= --queue= --runstates= \
        --session= --signal= --terminal= --uid= --help~ --version~").style(FlagStyle::Gnu),
    ProgramSpec::new(&["killall"], "-e -g -i -I -l~ -n= -o= -q -r -s= -u= -v -V~ -w -y= -Z= --exact --ignore-case --interactive --list~ --older-than= --process-group --quiet --regexp --signal= --user= --verbose --version~ --wait --younger-than="),
    ProgramSpec::new(&["shutdown", "reboot", "halt", "poweroff", "telinit", "init"], "-c~ -d -f -h -H -k~ -n -p -P -r -t= -w --force --halt --no-wall --no-wtmp --poweroff --reboot --show~ --wtmp-only --help~"),
    ProgramSpec::new(&["useradd", "usermod", "adduser"], "-a -b= -c= -d= -D -e= -f= -g= -G= -k= -K= -L -l= -m -M -N -o -p= -r -R= -s= -u= -U --append --comment= --create-home --disabled-password --gecos= --gid= --groups= --home= --lock --login= --move-home --password= --shell= --system --uid= --unlock --help~"),
    ProgramSpec::new(&["userdel", "deluser", "groupdel", "delgroup"], "-f -r -R= -P= -Z --force --remove --remove-home --remove-all-files --root= --help~"),
    ProgramSpec::new(&["passwd", "chpasswd", "chage"], "-a -d -e -E= -h~ -i= -I= -k -l -m -M= -n= -q -r= -R= -S~ -u -w= -W= -x= --all --delete --expire --keep-tokens --lock --stdin --unlock --help~"),
    ProgramSpec::new(&["crontab"], "-e~ -i -l~ -n= -r~ -s -T -u= -V~ -x=").interprets("cron"),
    ProgramSpec::new(&["at", "batch"], "-b -c~ -d~ -f= -l~ -m -M -q= -r~ -t= -v -V~").stdin_shell(StdinShell::Always),
    ProgramSpec::new(&["iptables", "ip6tables", "nft", "ufw"], "-4 -6 -A -a -C -c= -d= -D -E -f -F -g= -h~ -i= -I -j= -L~ -m= -n -N -o= -p= -P -R -S~ -s= -t= -v -V~ -w? -X -Z --append --comment= --ctstate= --delete --destination= --dport= --flush --force --icmp-type= --in-interface= --insert --jump= --line-numbers --limit= --list~ --match= --numeric \
        --out-interface= --policy --protocol= --reject-with= --source= --sport= --state= --table= --to-destination= --help~ --version~"),
    ProgramSpec::new(&["ip"], "-4 -6 -a -B -b= -br -c? -d -f= -h -j -M -n= -N -o -p -r -s -t -V~").style(FlagStyle::Words).groups("netns vrf")
        .subcommands(&[SubcommandSpec::runs("netns exec", 1, ""), SubcommandSpec::runs("vrf exec", 1, "")]),
    ProgramSpec::new(&["sysctl"], "-a~ -A~ -b -e -f? -h~ -n -N -p? -q -r= -w --all~ --binary --ignore --load? --names --pattern= --quiet --system --values --write --help~ --version~"),
    ProgramSpec::new(&["modprobe", "insmod", "rmmod"], "-a -b -c -C= -D -d= -f -i -n~ -q -r -R -S= -s -v -V~ --all --dry-run~ --force --quiet --remove --show-depends~ --verbose --help~ --version~"),
    ProgramSpec::new(&["cryptsetup"], "-c= -d= -h= -l= -q -s= -S= -t= -v -y --batch-mode --cipher= --force-password --hash= --header= --key-file= --key-size= --key-slot= --type= --verbose --help~ --version~").groups("none"),
    ProgramSpec::new(&["lvremove", "vgremove", "pvremove", "lvreduce", "vgreduce", "lvresize"], "-a -f -l= -L= -n= -q -r -S= -t~ -v -y --all --force --removemissing --resizefs --select= --size= --test~ --verbose --yes --help~ --version~"),
    ProgramSpec::new(&["zfs", "zpool", "btrfs"], "-d -f -F -h~ -n~ -o= -O= -p -r -R -s= -S= -t= -v").groups("subvolume balance device filesystem scrub"),
    ProgramSpec::new(&["mdadm"], "-A -a -B -C -c= -D -E -f -F -G -I -l= -L= -m= -n= -o -Q -r -R -S -s -t -v -V~ -w -x= --add --assemble --create --detail --examine --fail --force --grow --level= --manage --raid-devices= --remove --run --stop --verbose --zero-superblock --help~ --version~"),
    ProgramSpec::new(&["launchctl", "diskutil", "csrutil", "tmutil", "spctl", "defaults", "dscl", "security", "networksetup", "scutil"], "-w -F -k -n= -plist -all --master-disable").style(FlagStyle::Words).subcommands(&[SubcommandSpec::new("asuser", "")]),
    ProgramSpec::new(&["gpg", "gpg2"], "-a -b -c -d -e -k -K -n~ -o= -q -r= -R= -s -u= -v --armor --batch --decrypt --delete-keys --delete-secret-keys --detach-sign --encrypt --export --export-secret-keys --homedir= --import --keyserver= --list-keys --list-secret-keys --local-user= --output= --passphrase= \
        --passphrase-file= --pinentry-mode= --recipient= --recv-keys --sign --symmetric --verify --yes --help~ --version~"),
    ProgramSpec::new(&["screen"], "-a -A -c= -d -D -e= -h= -i -l -L -m -p= -q -r? -R -s= -S= -t= -T= -U -v~ -x -X= --version~ --help~").runs(0),
    ProgramSpec::new(&["tmux"], "-2 -C -c$ -D -f= -L= -N -S= -T= -u -v -V~").subcommands(&[SubcommandSpec { name: "new-session", options: "-A -c= -d -D -e= -E -f= -F= -n= -P -s= -t= -x= -X -y=", action: super::super::program::ProgramAction::Joined { operands: 0 } },
        SubcommandSpec { name: "new", options: "-A -c= -d -D -e= -E -f= -F= -n= -P -s= -t= -x= -X -y=", action: super::super::program::ProgramAction::Joined { operands: 0 } },
        SubcommandSpec { name: "new-window", options: "-a -b -c= -d -e= -F= -k -n= -P -S -t=", action: super::super::program::ProgramAction::Joined { operands: 0 } },
        SubcommandSpec { name: "split-window", options: "-b -c= -d -e= -f -F= -h -I -l= -P -t= -v -Z", action: super::super::program::ProgramAction::Joined { operands: 0 } },
        SubcommandSpec::new("kill-session", "-a -C -t="), SubcommandSpec::new("kill-server", ""), SubcommandSpec { name: "send-keys", options: "-F -H -K -l -M -N= -R -t= -X -c=", action: super::super::program::ProgramAction::Joined { operands: 0 } }]),
    ProgramSpec::new(&["test", "["], "").style(FlagStyle::Words),
    ProgramSpec::new(&["set", "shopt", "ulimit", "unset", "alias", "unalias", "read", "umask"], "").style(FlagStyle::Gnu),
    ProgramSpec::new(&["cd", "chdir"], "").style(FlagStyle::Gnu).action(super::super::program::ProgramAction::ChangeDirectory { to_home: true }),
    ProgramSpec::new(&["pushd", "popd"], "").style(FlagStyle::Gnu).action(super::super::program::ProgramAction::ChangeDirectory { to_home: false }),
];
