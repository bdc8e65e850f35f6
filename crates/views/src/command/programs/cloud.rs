//! Clouds, platforms and infrastructure. Sources: the references of AWS CLI 2, gcloud 500, Azure CLI 2.67, Terraform
//! 1.10, and the help of the other programs. Their subcommands are too many for a table; only their depth is given.

use super::super::program::{FlagStyle, ProgramAction, ProgramSpec, SubcommandSpec};

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["aws", "awslocal"], "--ca-bundle= --cli-auto-prompt --cli-binary-format= --cli-connect-timeout= --cli-read-timeout= --color= --debug --endpoint-url= --no-cli-auto-prompt --no-cli-pager --no-paginate --no-sign-request --no-verify-ssl --output= --profile= --query= --region= --version~")
        // The only code that it runs are statements.
        .language("sql")
        .groups("*")
        .subcommands(&[
            SubcommandSpec::new("rds-data execute-statement", "--sql@ --resource-arn= --secret-arn= --database= --schema= --parameters= --transaction-id= --format-records-as="),
            SubcommandSpec::new("rds-data batch-execute-statement", "--sql@ --resource-arn= --secret-arn= --database= --schema= --parameter-sets= --transaction-id="),
            SubcommandSpec::new("redshift-data execute-statement", "--sql@ --cluster-identifier= --database= --db-user= --secret-arn= --workgroup-name= --statement-name="),
            SubcommandSpec::new("athena start-query-execution", "--query-string@ --work-group= --query-execution-context= --result-configuration="),
            SubcommandSpec::new("s3 rm", "--dryrun~ --exclude= --include= --only-show-errors --page-size= --quiet --recursive --request-payer?"),
            SubcommandSpec::new("s3 rb", "--force"),
            SubcommandSpec::new("s3 cp", "--acl= --cache-control= --content-type= --dryrun~ --exclude= --expires= --include= --metadata= --no-progress --only-show-errors --quiet --recursive --sse? --sse-kms-key-id= --storage-class="),
            SubcommandSpec::new("s3 mv", "--acl= --dryrun~ --exclude= --include= --only-show-errors --quiet --recursive --sse? --storage-class="),
            SubcommandSpec::new("s3 sync", "--acl= --delete --dryrun~ --exact-timestamps --exclude= --include= --no-progress --only-show-errors --quiet --size-only --sse? --storage-class="),
        ]),
    ProgramSpec::new(&["gcloud"], "-h~ -q --account= --billing-project= --configuration= --flags-file= --flatten= --format= --help~ --impersonate-service-account= --log-http --project= --quiet --region= --trace-token= --command$ --user-output-enabled --verbosity= --zone= --version~")
        .groups("**"),
    ProgramSpec::new(&["gsutil"], "-D -h= -i= -m -o= -q -u= --version~").subcommands(&[
        SubcommandSpec::new("rm", "-a -f -I -r -R"), SubcommandSpec::new("rb", "-f"), SubcommandSpec::new("rsync", "-a= -c -C -d -e -i -J -j= -n~ -p -P -r -R -u -U -x= -y="),
        SubcommandSpec::new("cp", "-a= -c -D -e -I -j= -J -L= -n -p -P -r -R -s= -U -v -z= -Z"), SubcommandSpec::new("mv", "-n -p -P"),
    ]),
    ProgramSpec::new(&["az"], "-h~ -g= -n= -o= --debug --help~ --ids= --name= --only-show-errors --output= --query= --resource-group= --scripts$ --subscription= --verbose --yes -y --no-wait").groups("**"),
    ProgramSpec::new(&["terraform", "tofu", "terragrunt"], "-chdir= -help~ -version~ -auto-approve -backend-config= -compact-warnings -destroy -force -input= -json -lock= -lock-timeout= -no-color -out= -parallelism= -plan -reconfigure -refresh= -refresh-only -replace= -state= -state-out= -target= -upgrade \
        -var= -var-file= -migrate-state -force-copy --auto-approve --terragrunt-non-interactive --terragrunt-working-dir=")
        .style(FlagStyle::Words).groups("state workspace providers run-all"),
    ProgramSpec::new(&["pulumi"], "-C= -s= -y -f -h~ -v= --color= --cwd= --non-interactive --stack= --yes --skip-preview --target= --message= --force --preview-only~ --help~").groups("stack config state policy plugin org"),
    ProgramSpec::new(&["cdk", "sam", "sls", "serverless", "copilot", "amplify"], "-a= -c= -f -h~ -o= -r= -s= --all --app= --context= --exclusively --force --no-delete --output= --profile= --region= --require-approval= --stage= --stack-name= --no-prompts --yes --help~ --version~").groups("none"),
    ProgramSpec::new(&["ansible-playbook", "ansible", "ansible-galaxy"], "-a$ --args$ -b -B= -C~ -D -e= -f= -i= -k -K -l= -m= -M= -o -P= -t= -T= -u= -v --become --become-user= --check~ --connection= --diff --extra-vars= --inventory= --limit= --list-hosts~ --list-tasks~ --module-name= --private-key= --skip-tags= --start-at-task= --syntax-check~ --tags= --user= --vault-password-file= --help~ --version~"),
    ProgramSpec::new(&["heroku"], "-a= -r= -h~ --app= --remote= --confirm= -c= --json --help~ --version~").groups("none")
        .subcommands(&[JOINED_RUN, SubcommandSpec { name: "run:detached", ..JOINED_RUN }]),
    ProgramSpec::new(&["fly", "flyctl"], "-a= -c= -h~ -t= -y --access-token= --app= --config= --debug --org= --verbose --yes --help~").groups("apps auth certs ips machine machines mpg orgs postgres pg redis regions secrets ssh tokens volumes wireguard")
        .subcommands(&[SubcommandSpec::new("ssh console", "-A= -C$ -o= -r= -s -u= --address= --command$ --machine= --pty --region= --select --user=")]),
    ProgramSpec::new(&["vercel", "netlify", "railway", "render", "firebase", "wrangler", "planetscale", "pscale", "doctl", "linode-cli", "hcloud", "scw", "ibmcloud", "oci", "cf"],
        "-h~ -t= -S= -A= -c= -P= -y --token= --scope= --project= --config= --cwd= --env= --yes --force --debug --json --site= --auth= --filter= --account= --access-token= --context= --output= --format= --address= --namespace= --help~ --version~")
        .groups("alias certs dns domains env project projects git teams deploy functions sites kv d1 r2 r2:bucket queues secret secrets pages compute databases kubernetes registry apps droplet server volume network db branch branches migration functions storage auth token policy operator debug lease namespace")
        // The only code that they run are statements.
        .language("sql")
        .subcommands(&[SubcommandSpec::new("d1 execute", "-y --command@ --file= --local --remote --persist-to= --json --preview --yes --env= --config=")]),
    // Programs in Go, which take long flags after one dash and after two.
    ProgramSpec::new(&["vault", "consul", "nomad", "packer"], "-address= -agent-address= -ca-cert= -ca-path= -client-cert= -client-key= -datacenter= -detach -except= -field= -force -format= -global -header= -http-addr= -json -mfa= -mount= -name= -namespace= -no-color \
        -only= -output-curl-string -partition= -path= -policy= -purge -recurse -region= -tag= -tls-skip-verify -token= -token-file= -ttl= -type= -var= -var-file= -verbose -versions= -yes -y -h~ -help~ -version~ --help~ --version~")
        .style(FlagStyle::Words)
        .groups("acl alloc auth audit config connect deployment eval intention job kv lease namespace node operator plugin policy print quota secrets server service snapshot system tls token transit var volume"),
    ProgramSpec::new(&["rclone"], "-c -h~ -i -n~ -P -q -u -v -V~ --bwlimit= --checksum --config= --dry-run~ --exclude= --filter= --include= --interactive --max-age= --min-age= --progress --quiet --transfers= --update --verbose --help~ --version~").groups("config"),
    ProgramSpec::new(&["restic", "borg", "duplicity"], "-r= -p= -q -v -n~ -h~ --dry-run~ --password-file= --repo= --repository-file= --tag= --host= --keep-last= --keep-daily= --keep-weekly= --keep-monthly= --prune --verbose --help~").groups("key"),
    ProgramSpec::new(&["redis-cli", "valkey-cli"], "-a= -c -D= -d= -h= -i= -n= -p= -r= -s= -t= -u= -x -X= -2 -3 -4 -6 --askpass --cacert= --cert= --csv --eval= --hotkeys --key= --no-auth-warning --no-raw --pass= --pipe --raw --scan --tls --uri= --user= --help~ --version~"),
];

const JOINED_RUN: SubcommandSpec = SubcommandSpec {
    name: "run",
    options: "-a= -e= -r= -s= -x --app= --env= --remote= --size= --type= --exit-code --listen --no-launcher --no-notify --no-tty",
    action: ProgramAction::Joined { operands: 0 },
};
