//! Files, disks and text. Sources: the manuals of coreutils 9, util-linux 2.40, GNU grep 3, sed 4, tar 1.35, rsync 3.3.

use super::super::program::{FlagStyle, ProgramSpec};

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["rm", "grm"], "-d -f -i -I -R -r -v -P -W -x --dir --force --interactive? --one-file-system --no-preserve-root --preserve-root? \
        --recursive --verbose --help~ --version~"),
    ProgramSpec::new(&["rmdir"], "-p -v --ignore-fail-on-non-empty --parents --verbose --help~ --version~"),
    ProgramSpec::new(&["unlink", "link"], "--help~ --version~"),
    ProgramSpec::new(&["mv", "gmv"], "-b -f -i -n -S= -t= -T -u -v -Z -h --backup? --debug --exchange --force --interactive --no-clobber --no-copy \
        --strip-trailing-slashes --suffix= --target-directory= --no-target-directory --update? --verbose --context --help~ --version~"),
    ProgramSpec::new(&["cp", "gcp"], "-a -b -c -d -f -H -i -l -L -n -P -p -R -r -s -S= -t= -T -u -v -x -Z? -X --archive --attributes-only --backup? \
        --copy-contents --debug --dereference --no-dereference --force --interactive --link --no-clobber --parents --preserve? \
        --no-preserve= --recursive --reflink? --remove-destination --sparse= --strip-trailing-slashes --symbolic-link --suffix= \
        --target-directory= --no-target-directory --update? --verbose --one-file-system --help~ --version~"),
    ProgramSpec::new(&["ln"], "-b -d -F -f -h -i -L -n -P -r -s -S= -t= -T -v --backup? --directory --force --interactive --logical \
        --no-dereference --physical --relative --symbolic --suffix= --target-directory= --no-target-directory --verbose --help~ --version~"),
    ProgramSpec::new(&["install"], "-b -c -C -d -D -g= -m= -o= -p -s -S= -t= -T -v -Z --backup? --compare --directory --group= --mode= --owner= \
        --preserve-timestamps --strip --suffix= --target-directory= --no-target-directory --verbose --help~ --version~"),
    ProgramSpec::new(&["chmod"], "-c -f -h -H -L -P -R -v --changes --silent --quiet --verbose --no-preserve-root --preserve-root --reference= \
        --recursive --help~ --version~"),
    ProgramSpec::new(&["chown", "chgrp"], "-c -f -h -H -L -n -P -R -v -x --changes --silent --quiet --verbose --dereference --no-dereference --from= \
        --no-preserve-root --preserve-root --reference= --recursive --help~ --version~"),
    ProgramSpec::new(&["chattr"], "-a -A -c -C -d -D -e -F -i -j -m -P -R -s -S -t -T -u -V -x -f -v= -p="),
    ProgramSpec::new(&["shred"], "-f -n= -s= -u -v -x -z --force --iterations= --random-source= --remove? --size= --verbose --exact --zero --help~ --version~"),
    ProgramSpec::new(&["truncate"], "-c -o -r= -s= --no-create --io-blocks --reference= --size= --help~ --version~"),
    ProgramSpec::new(&["dd"], "--help~ --version~"),
    ProgramSpec::new(&["touch"], "-a -c -d= -f -h -m -r= -t= --no-create --date= --no-dereference --reference= --time= --help~ --version~"),
    ProgramSpec::new(&["mkdir"], "-m= -p -v -Z --mode= --parents --verbose --help~ --version~"),
    ProgramSpec::new(&["tee"], "-a -i -p --append --ignore-interrupts --output-error? --help~ --version~"),
    ProgramSpec::new(&["cat"], "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs \
        --show-nonprinting --help~ --version~"),
    ProgramSpec::new(&["head", "tail"], "-c= -n= -q -v -z -f -F -s= --bytes= --lines= --quiet --silent --verbose --zero-terminated --follow? --pid= \
        --retry --sleep-interval= --help~ --version~"),
    ProgramSpec::new(&["ls", "gls"], "-a -A -b -B -c -C -d -D -f -F -g -G -h -H -i -I= -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -T= -u -U -v -w= -x -X -Z -1 \
        --all --almost-all --color? --classify? --directory --human-readable --ignore= --inode --recursive --reverse --sort= \
        --time= --format= --group-directories-first --time-style= --help~ --version~"),
    ProgramSpec::new(&["grep", "egrep", "fgrep", "ggrep", "zgrep"], "-A= -a -B= -b -C= -c -D= -d= -E -e= -F -f= -G -H -h -I -i -L -l -m= -n -o -P -q -R -r -s -T -U -u \
        -v -V~ -w -x -y -Z -z --after-context= --before-context= --context= --color? --count --exclude= --exclude-dir= \
        --exclude-from= --extended-regexp --file= --files-with-matches --files-without-match --fixed-strings --ignore-case \
        --include= --invert-match --line-number --max-count= --only-matching --perl-regexp --quiet --recursive \
        --regexp= --word-regexp --help~ --version~"),
    ProgramSpec::new(&["rg"], "-A= -B= -C= -c -E= -e= -F -f= -g= -H -h~ -i -I -j= -L -l -M= -m= -n -N -o -p -P -q -r= -s -S -t= -T= -u -U -v -V~ -w -x -z -0 \
        --after-context= --before-context= --context= --color= --count --encoding= --file= --files --files-with-matches \
        --files-without-match --fixed-strings --follow --glob= --hidden --iglob= --ignore-case --ignore-file= --invert-match \
        --json --line-number --max-columns= --max-count= --max-depth= --multiline --no-ignore --only-matching --pcre2 --pre= \
        --pretty --quiet --regexp= --replace= --smart-case --sort= --stats --threads= --type= --type-not= --type-add= \
        --type-list --unrestricted --vimgrep --word-regexp --help~ --version~"),
    ProgramSpec::new(&["sed", "gsed"], "-b -E -e= -f= -i? -l= -n -r -s -u -z --expression= --file= --in-place? --line-length= --quiet --silent --posix \
        --regexp-extended --sandbox --separate --unbuffered --null-data --debug --help~ --version~"),
    ProgramSpec::new(&["tar", "gtar", "bsdtar"], "-A -b= -B -C= -c -d -f= -F$ -g= -G -h -H= -i -I$ -j -J -k -K= -l -L= -m -M -n -N= -O -o -P -p -r -R -s -S -T= -t -U -u -V= -v -W \
        -w -X= -x -Z -z --append --catenate --create --delete --diff --extract --get --list --update --file= --directory= \
        --exclude= --exclude-from= --files-from= --gzip --bzip2 --xz --zstd --absolute-names --overwrite --remove-files \
        --strip-components= --transform= --to-command$ --checkpoint? --checkpoint-action# --use-compress-program$ --info-script$ --new-volume-script$ --rsh-command= \
        --help~ --version~"),
    ProgramSpec::new(&["rsync"], "-0 -4 -6 -a -A -b -B= -c -C -d -D -e$ -E -f= -F -g -h -H -i -I -k -K -l -L -M= -m -n~ -N -o -O -p -P -q -r -R -S -s -t -T= -u -U -v -V~ -W -x -X -y -z \
        --archive --append --backup --backup-dir= --bwlimit= --checksum --compress --copy-links --cvs-exclude --delete --del \
        --delete-before --delete-during --delete-after --delete-delay --delete-excluded --dry-run~ --exclude= --exclude-from= \
        --existing --files-from= --filter= --force --human-readable --ignore-errors --ignore-existing --ignore-times --include= \
        --include-from= --inplace --link-dest= --links --list-only~ --log-file= --max-delete= --max-size= --min-size= \
        --no-perms --no-owner --no-group --owner --partial --partial-dir= --password-file= --perms --port= --progress --prune-empty-dirs \
        --quiet --recursive --relative --remove-source-files --rsh$ --rsync-path$ --safe-links --size-only --sparse --stats --suffix= --temp-dir= \
        --times --timeout= --update --verbose --whole-file --help~ --version~"),
    ProgramSpec::new(&["zip"], "-r -q -m -e -j -u -x= -i= -P= -b= -d -F -f -T -TT= -y -9 -0 --encrypt --password= --move --recurse-paths --exclude= --include="),
    ProgramSpec::new(&["unzip"], "-a -c -d= -f -j -l -L -n -o -p -P= -q -t -u -v -V -x= -z -Z"),
    ProgramSpec::new(&["vim", "vi", "nvim", "view", "ex", "gvim", "mvim"], "-A -b -c# -C -d -D -e -E -es -F -g -h~ -H -i= -l -L -m -M -n -N -o? -O? -p? -q? -r -R -s= -S= -t= -T= -u= -U= -v -V? -w= -W= -x -X -y -Z --clean --cmd# --headless --noplugin --not-a-term --remote --servername= --startuptime= --help~ --version~"),
    ProgramSpec::new(&["openssl"], "-in= -out= -keyout= -inkey= -key= -pass= -passin= -passout= -k= -K= -iv= -d -e -a -A -base64 -salt -pbkdf2 -iter= -noout -text -x509 -days= -newkey= -nodes \
        -subj= -connect= -servername= -CAfile= -cert= -hex -sha256").style(FlagStyle::Words).groups("none")
        .subcommands(&[]),
    ProgramSpec::new(&["base64", "gbase64"], "-d -D -i -w= -o= -b= --decode --ignore-garbage --wrap= --help~ --version~"),
    ProgramSpec::new(&["xxd"], "-a -b -c= -e -E -g= -i -l= -o= -p -r -s= -u -v~"),
    ProgramSpec::new(&["mkfs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "mke2fs", "mkfs.xfs", "mkfs.btrfs", "mkfs.vfat", "mkfs.fat", "mkswap", "mkfs.ntfs", "mkfs.f2fs"],
        "-b= -c -C= -d= -D -E= -F -f -g= -G= -i= -I= -J= -j -K -l= -L= -m= -M= -n -N= -O= -o= -q -r= -S -s= -t= -T= -U= -v -V~ --type= --label= --uuid= --force \
        --help~ --version~"),
    ProgramSpec::new(&["fdisk", "sfdisk", "cfdisk"], "-b= -B -c? -l~ -L? -n~ -o= -s~ -t= -u? -w= -W= -x~ -d~ -a -A --list~ --dump~ --delete --no-act~ --force --wipe= --help~ --version~"),
    ProgramSpec::new(&["parted"], "-l~ -m -s -a= --list~ --machine --script --align= --fix --help~ --version~"),
    ProgramSpec::new(&["wipefs"], "-a -b -f -i -J -n~ -o= -O= -p -q -t= --all --backup? --force --noheadings --json --no-act~ --offset= --output= --parsable --quiet --types= --help~ --version~"),
    ProgramSpec::new(&["blkdiscard"], "-f -o= -l= -p= -s -v -z --force --offset= --length= --step= --secure --verbose --zeroout --help~ --version~"),
    ProgramSpec::new(&["mount", "umount"], "-a -A -B -f -F -i -l -L= -m -M -n -N= -o= -O= -q -R -r -s -t= -T= -U= -v -w --all --bind --fake --fork --lazy --label= --move \
        --namespace= --options= --rbind --read-only --recursive --force --source= --target= --types= --uuid= --verbose --help~ --version~"),
    ProgramSpec::new(&["jq", "yq"], "-a -c -C -e -f= -h~ -i -j -L= -M -n -r -R -s -S -V~ --arg= --argjson= --slurpfile= --rawfile= --args --jsonargs --raw-output --compact-output \
        --slurp --null-input --indent= --tab --exit-status --help~ --version~"),
    ProgramSpec::new(&["split", "csplit"], "-a= -b= -C= -d -e -l= -n= -t= -u -x --additional-suffix= --bytes= --filter$ --lines= --line-bytes= --number= --separator= --suffix-length= --verbose --help~ --version~"),
    ProgramSpec::new(&["sort"], "-b -c -C -d -f -g -h -i -k= -m -M -n -o= -R -r -s -S= -t= -T= -u -V -z --key= --output= --reverse --unique --parallel= --help~ --version~"),
    ProgramSpec::new(&["du", "df"], "-0 -a -b -B= -c -d= -D -h -H -i -k -l -L -m -P -s -S -t= -T -x -X= --all --apparent-size --block-size= --total --max-depth= --human-readable \
        --inodes --summarize --exclude= --time? --type= --help~ --version~"),
];
