//! Transfers and network tools. Sources: the manuals of curl 8.11, wget 1.25, OpenSSH 9.9, OpenBSD nc and ncat 7.

use super::super::program::{FlagStyle, ProgramAction, ProgramSpec};

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(
        &["curl"],
        "-0 -1 -2 -3 -4 -6 -a -A= -b= -B -c= -C= -d= -D= -e= -E= -f -F= -g -G -h? -H= -i -I -j -J -k -K= -l -L -m= -M~ -n -N -o= -O -p -P= -q -Q= -r= -R -s -S -t= -T= -u= -U= \
        -v -V~ -w= -x= -X= -y= -Y= -z= -Z -# -: --append --basic --bearer= --cacert= --capath= --cert= --cert-type= --ciphers= --compressed --config= --connect-timeout= --connect-to= \
        --continue-at= --cookie= --cookie-jar= --create-dirs --data= --data-ascii= --data-binary= --data-raw= --data-urlencode= --digest --dump-header= --fail --fail-early --fail-with-body --form= \
        --form-string= --get --globoff --head --header= --help? --hostpubmd5= --http1.0 --http1.1 --http2 --http3 --ignore-content-length --include --insecure --interface= --ipv4 --ipv6 --json= --keepalive-time= \
        --key= --limit-rate= --list-only --local-port= --location --location-trusted --max-filesize= --max-redirs= --max-time= --netrc --netrc-file= --next --no-buffer --no-keepalive --no-progress-meter \
        --noproxy= --oauth2-bearer= --output= --output-dir= --parallel --parallel-max= --pass= --path-as-is --pinnedpubkey= --post301 --post302 --post303 --proto= --proto-default= --proto-redir= --proxy= \
        --proxy-header= --proxy-user= --proxytunnel --quote= --range= --rate= --raw --referer= --remote-header-name --remote-name --remote-name-all --remote-time --request= --request-target= --resolve= --retry= \
        --retry-all-errors --retry-connrefused --retry-delay= --retry-max-time= --show-error --show-headers --silent --socks5= --socks5-hostname= --speed-limit= --speed-time= --ssl-reqd --stderr= --tcp-nodelay \
        --time-cond= --tls-max= --tlsv1 --tlsv1.2 --tlsv1.3 --trace= --trace-ascii= --unix-socket= --upload-file= --url= --url-query= --user= --user-agent= --variable= --verbose --version~ --write-out= --aws-sigv4=",
    ),
    ProgramSpec::new(
        &["wget"],
        "-4 -6 -a= -A= -b -B= -c -d -D= -e= -E -F -g= -h~ -H -i= -I= -k -K -l= -L -m -n= -N -nc -nd -nH -np -nv -o= -O= -p -P= -q -Q= -r -R= -S -t= -T= -U= -v -V~ -w= -x -X= --accept= --auth-no-challenge \
        --background --base= --body-data= --body-file= --ca-certificate= --certificate= --compression= --connect-timeout= --content-disposition --continue --convert-links --cut-dirs= --debug --delete-after --directory-prefix= \
        --domains= --execute= --force-directories --force-html --header= --help~ --http-passwd= --http-user= --https-only --input-file= --keep-session-cookies --level= --limit-rate= --load-cookies= --max-redirect= --method= \
        --mirror --no-cache --no-check-certificate --no-clobber --no-cookies --no-directories --no-host-directories --no-parent --no-proxy --no-verbose --output-document= --output-file= --page-requisites --password= \
        --post-data= --post-file= --progress= --proxy-password= --proxy-user= --quiet --random-wait --read-timeout= --recursive --referer= --reject= --save-cookies= --save-headers --server-response --show-progress --span-hosts \
        --spider --timeout= --timestamping --tries= --trust-server-names --unlink --user= --user-agent= --verbose --version~ --wait= --waitretry=",
    ),
    ProgramSpec::new(
        &["http", "https", "xh", "httpie"],
        "-a= -A= -b -c -d -f -F -h -I -j -m -o= -p= -s= -S -v --auth= --auth-type= --body --cert= --check-status --compress --continue --download --follow --form --headers --ignore-stdin \
        --json --multipart --offline~ --output= --pretty= --print= --proxy= --raw= --session= --stream --timeout= --verbose --verify= --help~ --version~",
    ),
    ProgramSpec::new(
        &["scp"],
        "-3 -4 -6 -A -B -C -c= -D= -F= -i= -J= -l= -O -o# -P= -p -q -R -r -S$ -s -T -v -X=",
    ),
    ProgramSpec::new(
        &["sftp"],
        "-4 -6 -A -a -B= -b= -C -c= -D= -F= -f -i= -J= -l= -N -o# -P= -p -q -R= -r -S$ -s= -v -X=",
    ),
    ProgramSpec::new(
        &["nc", "netcat", "ncat", "nc.traditional", "nc.openbsd"],
        "-4 -6 -b -c$ -C -d -D -e$ -F -g= -G= -h~ -I= -i= -k -l -M= -m= -N -n -O= -o= -P= -p= -q= -r -S -s= -t -T= -U -u -V= -v -W= -w= -X= -x= -Z= -z --exec$ --sh-exec$ \
        --lua-exec= --listen --keep-open --ssl --udp --source-port= --proxy= --proxy-type= --recv-only --send-only --wait= --idle-timeout= --verbose --help~ --version~",
    ),
    ProgramSpec::new(
        &["socat"],
        "-d -D -h~ -V~ -x -v -u -U -s -b= -t= -T= -l= -ly -lf= -L= -W= -4 -6",
    )
    .style(FlagStyle::Words)
    .action(ProgramAction::SocketAddresses),
    ProgramSpec::new(
        &["mail", "mailx", "s-nail", "mutt"],
        "-a= -A= -b= -c= -d -E -e= -F= -f= -H -i= -I -l= -n -N -q= -r= -R -s= -S= -t -T= -u= -v -V~ -x -y -z -Z --attach= --subject= --to= --cc= --bcc= --append= --help~ --version~",
    ),
    ProgramSpec::new(
        &["dig", "host", "nslookup"],
        "-4 -6 -b= -c= -f= -k= -m -p= -q= -r -t= -T -u -v -x= -y=",
    ),
    ProgramSpec::new(
        &["ping", "ping6"],
        "-4 -6 -a -A -b -B -c= -d -D -f -F= -h~ -i= -I= -l= -L -m= -M= -n -N= -O -p= -q -Q= -R -r -s= -S= -t= -T= -U -v -V~ -w= -W=",
    ),
    ProgramSpec::new(
        &["openvpn", "ngrok", "cloudflared", "tailscale"],
        "--config= --region= --authtoken= --url= --hostname= --help~ --version~",
    ),
];
