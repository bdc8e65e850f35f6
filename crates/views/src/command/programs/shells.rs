//! Shells and interpreters. Sources: the manuals of bash 5.2, zsh 5.9, Python 3.13, Perl 5.40, Ruby 3.4, Node.js 23,
//! PHP 8.4, psql 17, mysql 9, sqlite3 3.47, and the help of the other programs.

use super::super::program::{FlagStyle, ProgramAction, ProgramSpec, SubcommandSpec};

/// The options of the client of ClickHouse.
const CLICKHOUSE: &str = "-h= -u= -d= -q@ -n -m -t -E -f= --query@ --host= --port= --user= --password= --database= --format= --multiquery --queries-file= \
    --secure --time --config-file= --help~ --version~";

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh"],
        "-a -b -c -e -f -h -i -k -l -m -n~ -p -r -s -t -u -v -x -B -C -D~ -E -H -P -T -o= -O= --login --posix --norc --noprofile \
        --noediting --restricted --verbose --init-file= --rcfile= --debugger --pretty-print~ --command --help~ --version~")
        .action(ProgramAction::Shell),
    ProgramSpec::new(&["python", "py", "pypy", "ipython"], "-b -B -c@ -d -E -h~ -i -I -m= -O -P -q -s -S -u -v -V~ -W= -x -X= -? --help~ --version~ \
        --check-hash-based-pycs=").interprets("python"),
    ProgramSpec::new(&["node", "nodejs"], "-e@ -p@ -r= -i -c~ -h~ -v~ -C= --eval@ --print@ --require= --import= --input-type= --check~ --help~ \
        --version~ --inspect? --test --watch --loader= --env-file= --max-old-space-size= --experimental-vm-modules \
        --no-warnings").interprets("javascript"),
    ProgramSpec::new(&["bun"], "-e@ --eval@ -p@ --print@ --cwd= --config= --watch --hot --help~ --version~").language("javascript")
        .subcommands(&[SubcommandSpec::runs("x", 0, ""), SubcommandSpec::new("run", "--bun --watch --filter="), SubcommandSpec::new("remove", ""),
            SubcommandSpec::new("add", "-d -g -D -E"), SubcommandSpec::new("install", ""), SubcommandSpec::new("publish", "--dry-run~ --tag= --access=")]),
    ProgramSpec::new(&["deno"], "-q -A --quiet --unstable --help~ --version~").language("javascript")
        .subcommands(&[SubcommandSpec { name: "eval", options: "-p -T --print --ext=", action: ProgramAction::CodeOperand { operands: 0 } },
            SubcommandSpec::new("run", "-A -r --allow-all --allow-read? --allow-write? --allow-net? --allow-run? --allow-env? --watch")]),
    ProgramSpec::new(&["tsx", "ts-node", "esno"], "-e@ -p@ --eval@ --print@ --tsconfig= -P= --project= -r= --require= --watch").interprets("typescript"),
    ProgramSpec::new(&["perl"], "-0? -a -C? -c~ -d? -D? -e@ -E@ -F= -f -h~ -i? -I= -l? -m= -M= -n -p -s -S -t -T -u -U -v~ -V? -w -W -x? -X")
        .interprets("perl"),
    ProgramSpec::new(&["ruby", "jruby"], "-0? -a -C= -c~ -d -e@ -E= -F= -h~ -i? -I= -K= -l -n -p -r= -s -S -T? -U -v -w -W? -x? --help~ --version~ \
        --disable= --enable= --encoding=").interprets("ruby"),
    ProgramSpec::new(&["php"], "-a -B@ -c= -C -d= -e -E@ -f= -F= -H -h~ -i~ -l~ -m~ -n -q -r@ -R@ -s -S= -t= -v~ -w -z= --run@ --file= --help~ --version~")
        .interprets("php"),
    ProgramSpec::new(&["lua", "luajit"], "-e@ -i -l= -v~ -E -W").interprets("lua"),
    ProgramSpec::new(&["Rscript", "R"], "-e@ --vanilla --no-save --slave -f= --file= --help~ --version~").interprets("r"),
    ProgramSpec::new(&["osascript"], "-e@ -l= -s= -i").interprets("applescript"),
    ProgramSpec::new(&["tclsh", "wish", "expect"], "-c@ -d -D= -f= -i -n -N -b").interprets("tcl"),
    ProgramSpec::new(&["awk", "gawk", "mawk", "nawk"], "-f= -F= -v= -e@ -E= -i= -l= --file= --field-separator= -newline= -nullvalue= --assign= --source@ --exec= --include= \
        --posix --sandbox --help~ --version~").language("awk").action(ProgramAction::CodeOperand { operands: 0 }),
    ProgramSpec::new(&["psql", "pgcli"], "-a -A -b -c@ -d= -e -E -f= -F= -h= -H -l~ -L= -n -o= -p= -P= -q -R= -s -S -t -T= -U= -v= -V~ -w -W -x \
        -X -z -0 -1 --command@ --dbname= --file= --host= --port= --username= --set= --variable= --output= --no-psqlrc \
        --no-password --password --single-transaction --list~ --help~ --version~").queries("sql"),
    ProgramSpec::new(&["mysql", "mariadb", "mycli", "mysqlsh"], "-A -B -b -C -D= -E -e@ -f -h= -H -i -L -N -n -o -P= -p? -q -r -S= -s -T -t -U -u= -V~ -v -W -w -X --batch \
        --database= --execute@ --force --host= --password? --port= --protocol= --raw --skip-column-names --socket= \
        --table --user= --defaults-file= --help~ --version~").queries("sql"),
    ProgramSpec::new(&["usql"], "-A -C -c@ -f= -G -H -J -o= -q -t -v= -w -W -x -X -1 --command@ --file= --no-init --no-password --out= --password \
        --quiet --set= --single-transaction --variable= --help~ --version~").queries("sql"),
    ProgramSpec::new(&["sqlite3", "duckdb", "sqlite"], "-c@ -cmd@ -init= -separator= -batch -bail -column -csv -echo -header -noheader -html -json -line -list -markdown \
        -readonly -safe -table -version~ -help~").style(FlagStyle::Words).language("sql").action(ProgramAction::CodeOperand { operands: 1 }),
    ProgramSpec::new(&["mongosh", "mongo"], "-f= -h= -p? -u= --eval@ --file= --host= --port= --username= --password? --quiet --shell --norc \
        --nodb --authenticationDatabase= --json? --help~ --version~").queries("javascript"),
    ProgramSpec::new(&["sqlcmd", "osql"], "-S= -U= -P= -d= -i= -o= -Q@ -q@ -h= -s= -W -E -b -l= -t= -v= -C -G -N?").queries("sql")
        .subcommands(&[SubcommandSpec { name: "query", options: "-d= --database=", action: ProgramAction::CodeOperand { operands: 0 } }]),
    ProgramSpec::new(&["cockroach"], "--help~").language("sql")
        .subcommands(&[SubcommandSpec { name: "sql", options: "-e@ -d= -u= -f= -s= --execute@ --database= --user= --file= --host= --port= --url= --certs-dir= --insecure --format= --set= --watch=",
            action: ProgramAction::Client }]),
    ProgramSpec::new(&["clickhouse-client"], CLICKHOUSE).queries("sql"),
    ProgramSpec::new(&["clickhouse"], "--help~ --version~").language("sql")
        .subcommands(&[SubcommandSpec { name: "client", options: CLICKHOUSE, action: ProgramAction::Client }]),
    ProgramSpec::new(&["bq"], "-q --project_id= --dataset_id= --location= --format= --headless --quiet --help~ --version~").language("sql")
        .subcommands(&[
            SubcommandSpec { name: "query", options: "-n= --use_legacy_sql? --nouse_legacy_sql --dry_run~ --destination_table= --batch --max_rows= --parameter= --label= --replace",
                action: ProgramAction::CodeOperand { operands: 0 } },
            SubcommandSpec::new("rm", "-f -r -d -t -m --force --recursive --dataset --table --model"),
        ]),
    ProgramSpec::new(&["snow"], "-h~ --info --version~ --help~").language("sql")
        .subcommands(&[SubcommandSpec { name: "sql", options: "-q@ -f= -i -D= -c= --query@ --filename= --stdin --variable= --connection= --format= --account= --user= --database= --schema= --role= --warehouse=",
            action: ProgramAction::Client }]),
    ProgramSpec::new(&["dolt"], "--help~").language("sql")
        .subcommands(&[SubcommandSpec { name: "sql", options: "-q@ -f= -r= -s= -b --query@ --file= --result-format= --save= --batch", action: ProgramAction::Client },
            SubcommandSpec::new("push", "-f -u --force"), SubcommandSpec::new("reset", "--hard --soft")]),
    ProgramSpec::new(&["turso"], "--help~").groups("db group org auth plan").language("sql")
        .subcommands(&[SubcommandSpec { name: "db shell", options: "--location= --instance= --proxy=", action: ProgramAction::CodeOperand { operands: 1 } }]),
    ProgramSpec::new(&["snowsql", "cqlsh", "influx", "trino", "presto", "hive", "beeline", "spark-sql", "impala-shell", "isql", "sqlplus"],
        "-q@ -e@ --query@ --execute@ -execute@ -f= -h= -u= -p= -d= -k= --host= --user= --username= --password= --keyspace= --catalog= --schema= --server= \
        --database= --port= --format= --force --file= -i= -o= -S -L").queries("sql"),
    ProgramSpec::new(&["cypher-shell"], "-a= -d= -f= -h~ -p= -P= -u= -v~ --access-mode= --address= --database= --encryption= --fail-at-end --fail-fast --file= --format= --non-interactive --param= --password= --username= --help~ --version~")
        .language("cypher").action(ProgramAction::CodeOperand { operands: 0 }),
    ProgramSpec::new(&["powershell", "pwsh"], "-Command& -File= -EncodedCommand= -ExecutionPolicy= -InputFormat= -OutputFormat= -NoLogo \
        -NoExit -NoProfile -NonInteractive -Sta -Mta -Version= -WindowStyle= -WorkingDirectory= -Login -ConfigurationName= \
        -c& -e= -ec= -f= -ep= -w= -Help~").style(FlagStyle::PowerShell).language("powershell").joins(0),
    ProgramSpec::new(&["cmd"], "/c& /k& /s /q /d /a /u /e /f /v").style(FlagStyle::Cmd).language("cmd"),
];
