//! Containers and clusters. Sources: the help of docker 27, podman 5, kubectl 1.31, helm 3.16, docker compose 2.

use super::super::program::{ProgramSpec, SubcommandSpec};

pub(super) const PROGRAMS: &[ProgramSpec] = &[
    ProgramSpec::new(&["docker", "podman", "nerdctl"], "-c= -D -H= -l= -v~ --config= --connection= --context= --debug --host= --log-level= --namespace= --remote --root= --runroot= --storage-driver= --tls --tlscacert= --tlscert= --tlskey= \
        --tlsverify --url= --help~ --version~")
        .groups("builder buildx checkpoint compose config container context generate image kube machine manifest network node plugin pod secret service stack swarm system trust volume")
        .subcommands(DOCKER),
    ProgramSpec::new(&["docker-compose", "podman-compose"], "-f= -p= -H= -v~ --ansi= --compatibility --dry-run~ --env-file= --file= --parallel= --profile= --progress= --project-directory= --project-name= --help~ --version~")
        .subcommands(COMPOSE),
    ProgramSpec::new(&["kubectl", "k", "oc", "k3s kubectl", "microk8s.kubectl"], "-h~ -n= -s= -v= --as= --as-group= --as-uid= --cache-dir= --certificate-authority= --client-certificate= --client-key= --cluster= --context= --insecure-skip-tls-verify --kubeconfig= \
        --match-server-version --namespace= --password= --profile= --request-timeout= --server= --tls-server-name= --token= --user= --username= --v= --warnings-as-errors --help~")
        .groups("apply auth certificate cluster-info config plugin rollout set top")
        .subcommands(KUBECTL),
    ProgramSpec::new(&["helm"], "-h~ -n= --burst-limit= --debug --kube-apiserver= --kube-as-group= --kube-as-user= --kube-ca-file= --kube-context= --kube-insecure-skip-tls-verify --kube-token= --kubeconfig= --namespace= --qps= --registry-config= \
        --repository-cache= --repository-config= --help~")
        .groups("dependency get plugin registry repo search show")
        .subcommands(HELM),
    ProgramSpec::new(&["k9s", "kind", "k3d", "minikube", "eksctl", "kustomize", "flux", "istioctl"], "-h~ -n= -f= -p= --context= --kubeconfig= --name= --namespace= --profile= --region= --cluster= --config-file= --help~").groups("*"),
    ProgramSpec::new(&["argocd"], "-h~ -N= -o= -y --server= --auth-token= --client-crt= --client-crt-key= --config= --controller-name= --core --grpc-web \
        --grpc-web-root-path= --header= --http-retry-max= --insecure --kube-context= --logformat= --loglevel= --plaintext --port-forward \
        --port-forward-namespace= --prompts-enabled? --redis-name= --repo-server-name= --server-crt= --server-name= --app-namespace= --cascade? \
        --propagation-policy= --selector= --yes --help~").groups("*"),
    ProgramSpec::new(&["velero"], "-h~ -n= -v= -l= --namespace= --kubeconfig= --kubecontext= --features= --add_dir_header --colorized? --log_dir= --selector= --all --confirm --help~").groups("*"),
    ProgramSpec::new(&["helmfile"], "-h~ -b= -c -e= -f= -i -l= -n= -q -v~ --allow-no-matching-release --args= --chart= --color --debug --environment= --file= --helm-binary= --interactive \
        --kube-context= --kubeconfig= --log-level= --namespace= --no-color --quiet --selector= --state-values-file= --state-values-set= --skip-deps --help~ --version~").groups("none"),
    ProgramSpec::new(&["etcdctl"], "-h~ -w= --cacert= --cert= --command-timeout= --debug --dial-timeout= --discovery-srv= --endpoints= --hex --insecure-discovery --insecure-skip-tls-verify \
        --insecure-transport --keepalive-time= --keepalive-timeout= --key= --password= --user= --write-out= --prefix --from-key --prev-kv --range --limit= --rev= --lease= --help~")
        .groups("alarm auth check endpoint lease member role snapshot user"),
    ProgramSpec::new(&["crictl", "ctr"], "-r= -i= -n= -a= --runtime-endpoint= --image-endpoint= --namespace= --address= --timeout= --debug --help~ --version~")
        .subcommands(&[SubcommandSpec::runs("exec", 1, "-e= -i -s -t --sync --tty --interactive --timeout=")]),
    ProgramSpec::new(&["lxc", "incus"], "--project= --debug --verbose --quiet --force-local --help~ --version~")
        .subcommands(&[SubcommandSpec::runs("exec", 1, "-n -t -T --cwd= --env= --user= --group= --mode= --disable-stdin"), SubcommandSpec::new("delete", "-f -i --force --interactive")]),
    ProgramSpec::new(&["pct"], "").subcommands(&[SubcommandSpec::runs("exec", 1, "--keep-env"), SubcommandSpec::new("destroy", "--destroy-unreferenced-disks --force --purge")]),
    ProgramSpec::new(&["qm"], "").groups("guest").subcommands(&[SubcommandSpec::runs("guest exec", 1, "--pass-stdin --synchronous --timeout="), SubcommandSpec::new("destroy", "--destroy-unreferenced-disks --purge --skiplock")]),
    ProgramSpec::new(&["vagrant"], "-h~ -v~ --color --machine-readable --help~ --version~")
        .subcommands(&[SubcommandSpec { name: "ssh", options: "-c$ -p --command$ --plain", action: super::super::program::ProgramAction::None }, SubcommandSpec::new("destroy", "-f -g --force --graceful --parallel")]),
];

const EXEC: &str = "-d -e= -i -t -u= -w= --detach --detach-keys= --env= --env-file= --interactive --latest --preserve-fds= --privileged --tty --user= --workdir=";
const RUN: &str = "-a= -c= -d -e= -h= -i -l= -m= -p= -P -q -t -u= -v= -w= --add-host= --annotation= --attach= --blkio-weight= --cap-add= --cap-drop= --cgroup-parent= --cgroupns= --cidfile= --cpu-period= --cpu-quota= --cpu-shares= --cpus= \
    --cpuset-cpus= --detach --detach-keys= --device= --disable-content-trust --dns= --dns-search= --domainname= --entrypoint= --env= --env-file= --expose= --gpus= --group-add= --health-cmd= --hostname= --init --interactive \
    --ip= --ipc= --isolation= --label= --label-file= --link= --log-driver= --log-opt= --mac-address= --memory= --memory-swap= --mount= --name= --network= --net= --network-alias= --no-healthcheck --oom-kill-disable --pid= \
    --pids-limit= --platform= --privileged --publish= --publish-all --pull= --quiet --read-only --restart= --rm --runtime= --security-opt= --shm-size= --sig-proxy --stop-signal= --stop-timeout= --storage-opt= --sysctl= --tmpfs= \
    --tty --ulimit= --user= --userns= --uts= --volume= --volume-driver= --volumes-from= --workdir=";
const RM: &str =
    "-a -f -l -v -t= --all --force --link --volumes --time= --latest --ignore --depend";
const RMI: &str = "-a -f -i --all --force --ignore --no-prune --platform=";
const PRUNE: &str = "-a -f --all --build --external --filter= --force --volumes --keep-storage= --reserved-space= --max-used-space= --min-free-space= --verbose";
const UP: &str = "-d -t= -V -w -y --abort-on-container-exit --always-recreate-deps --attach= --build --detach --exit-code-from= --force-recreate --no-build --no-color --no-deps --no-recreate --no-start --pull= --quiet-pull --remove-orphans \
    --renew-anon-volumes --scale= --timeout= --wait --watch";
const DOWN: &str = "-t= -v --remove-orphans --rmi= --timeout= --volumes";

const DOCKER: &[SubcommandSpec] = &[
    SubcommandSpec::new(
        "compose",
        "-f= -p= --all-resources --ansi= --compatibility --dry-run~ --env-file= --file= --parallel= --profile= --progress= --project-directory= --project-name=",
    ),
    SubcommandSpec::runs("exec", 1, EXEC),
    SubcommandSpec::runs("container exec", 1, EXEC),
    SubcommandSpec::runs("run", 1, RUN),
    SubcommandSpec::runs("container run", 1, RUN),
    SubcommandSpec::new("create", RUN),
    SubcommandSpec::new("rm", RM),
    SubcommandSpec::new("container rm", RM),
    SubcommandSpec::new("rmi", RMI),
    SubcommandSpec::new("image rm", RMI),
    SubcommandSpec::new("image prune", PRUNE),
    SubcommandSpec::new("builder prune", PRUNE),
    SubcommandSpec::new("buildx prune", PRUNE),
    SubcommandSpec::new("container prune", PRUNE),
    SubcommandSpec::new("network prune", PRUNE),
    SubcommandSpec::new("system prune", PRUNE),
    SubcommandSpec::new("volume prune", PRUNE),
    SubcommandSpec::new("volume rm", "-a -f -t= --all --force"),
    SubcommandSpec::new("network rm", "-f -t= --force"),
    SubcommandSpec::new(
        "build",
        "-f= -q -t= -o= --add-host= --allow= --annotation= --build-arg= --build-context= --builder= --cache-from= --cache-to= --file= --iidfile= --label= --load --network= --no-cache --output= --platform= --progress= --provenance= \
        --pull --push --quiet --rm --secret= --shm-size= --squash --ssh= --tag= --target= --ulimit=",
    ),
    SubcommandSpec::new(
        "stop",
        "-a -i -l -s= -t= --all --ignore --latest --signal= --time= --timeout=",
    ),
    SubcommandSpec::new("kill", "-a -l -s= --all --latest --signal="),
    SubcommandSpec::new(
        "ps",
        "-a -f= -l -n= -q -s --all --filter= --format= --last= --latest --no-trunc --quiet --size",
    ),
    SubcommandSpec::new(
        "push",
        "-a -q --all-tags --platform= --quiet --disable-content-trust",
    ),
    SubcommandSpec::new(
        "pull",
        "-a -q --all-tags --platform= --quiet --disable-content-trust",
    ),
    SubcommandSpec::new("login", "-p= -u= --password= --password-stdin --username="),
    SubcommandSpec::runs(
        "compose exec",
        1,
        "-d -e= -T -u= -w= --detach --env= --index= --no-TTY --privileged --user= --workdir= -f= -p= --file= --project-name=",
    ),
    SubcommandSpec::runs(
        "compose run",
        1,
        "-d -e= -l= -p= -P -q -T -u= -v= -w= --build --detach --entrypoint= --env= --interactive --label= --name= --no-deps --no-TTY --publish= --quiet-pull --remove-orphans --rm --service-ports --use-aliases --user= --volume= --workdir=",
    ),
    SubcommandSpec::new("compose up", UP),
    SubcommandSpec::new("compose down", DOWN),
    SubcommandSpec::new("compose rm", "-f -s -v --force --stop --volumes"),
    SubcommandSpec::new("swarm leave", "-f --force"),
];

const COMPOSE: &[SubcommandSpec] = &[
    SubcommandSpec::runs(
        "exec",
        1,
        "-d -e= -T -u= -w= --detach --env= --index= --no-TTY --privileged --user= --workdir=",
    ),
    SubcommandSpec::runs(
        "run",
        1,
        "-d -e= -l= -P -q -T -u= -w= --build --detach --entrypoint= --env= --interactive --label= --name= --no-deps --no-TTY --publish= --quiet-pull --remove-orphans --rm --service-ports --use-aliases --user= --volume= --workdir=",
    ),
    SubcommandSpec::new("up", UP),
    SubcommandSpec::new("down", DOWN),
    SubcommandSpec::new("rm", "-s -v --force --stop --volumes"),
];

const KUBECTL: &[SubcommandSpec] = &[
    SubcommandSpec::runs(
        "exec",
        1,
        "-c= -f= -i -q -t --container= --filename= --pod-running-timeout= --quiet --stdin --tty",
    ),
    SubcommandSpec::runs(
        "debug",
        1,
        "-c= -i -q -t --arguments-only --attach --container= --copy-to= --env= --image= --image-pull-policy= --profile= --quiet --replace --same-node --set-image= --share-processes --stdin --target= --tty",
    ),
    SubcommandSpec::runs(
        "run",
        1,
        "-f= -i -l= -q -R -t --annotations= --attach --command --dry-run? --env= --expose --filename= --image= --image-pull-policy= --labels= --leave-stdin-open --override-type= --overrides= --port= --privileged --quiet --restart= --rm --stdin --tty",
    ),
    SubcommandSpec::new(
        "delete",
        "-A -f= -i -k= -l= -o= -R --all --all-namespaces --cascade? --dry-run? --field-selector= --filename= --force --grace-period= --ignore-not-found --interactive --kustomize= --now --output= --raw= --recursive --selector= --timeout= --wait",
    ),
    SubcommandSpec::new(
        "apply",
        "-f= -k= -l= -o= -R --all --cascade? --dry-run? --field-manager= --filename= --force --force-conflicts --grace-period= --kustomize= --openapi-patch --output= --overwrite --prune --prune-allowlist= --recursive --selector= --server-side --timeout= --validate? --wait",
    ),
    SubcommandSpec::new(
        "create",
        "-f= -k= -l= -o= -R --dry-run? --edit --filename= --from-literal= --from-file= --image= --kustomize= --output= --raw= --recursive --save-config --selector= --validate?",
    ),
    SubcommandSpec::new(
        "replace",
        "-f= -k= -o= -R --cascade? --dry-run? --filename= --force --grace-period= --kustomize= --output= --raw= --recursive --save-config --timeout= --validate? --wait",
    ),
    SubcommandSpec::new(
        "scale",
        "-f= -k= -l= -o= -R --all --current-replicas= --dry-run? --filename= --kustomize= --output= --recursive --replicas= --resource-version= --selector= --timeout=",
    ),
    SubcommandSpec::new(
        "drain",
        "-l= --chunk-size= --delete-emptydir-data --delete-local-data --disable-eviction --dry-run? --force --grace-period= --ignore-daemonsets --pod-selector= --selector= --skip-wait-for-delete-timeout= --timeout=",
    ),
    SubcommandSpec::new(
        "get",
        "-A -f= -k= -l= -L= -o= -R -w --all-namespaces --chunk-size= --field-selector= --filename= --ignore-not-found --kustomize= --label-columns= --no-headers --output= --raw= --recursive --selector= --show-kind --show-labels --sort-by= --subresource= --template= --watch --watch-only",
    ),
    SubcommandSpec::new(
        "logs",
        "-c= -f -l= -p --all-containers --container= --follow --limit-bytes= --prefix --previous --selector= --since= --since-time= --tail= --timestamps",
    ),
    SubcommandSpec::new(
        "patch",
        "-f= -k= -o= -p= -R --dry-run? --filename= --kustomize= --local --output= --patch= --patch-file= --recursive --subresource= --type=",
    ),
    SubcommandSpec::new("cp", "-c= --container= --no-preserve --retries="),
];

const HELM: &[SubcommandSpec] = &[
    SubcommandSpec::new(
        "uninstall",
        "--cascade= --description= --dry-run~ --ignore-not-found --keep-history --no-hooks --timeout= --wait",
    ),
    SubcommandSpec::new(
        "delete",
        "--cascade= --description= --dry-run~ --ignore-not-found --keep-history --no-hooks --purge --timeout= --wait",
    ),
    SubcommandSpec::new(
        "install",
        "-f= -g -l= -o= --atomic --ca-file= --cert-file= --create-namespace --dependency-update --description= --devel --dry-run? --force --generate-name --key-file= --labels= --name-template= --no-hooks --output= \
        --password= --post-renderer= --replace --repo= --set= --set-file= --set-json= --set-string= --skip-crds --timeout= --username= --values= --verify --version= --wait --wait-for-jobs",
    ),
    SubcommandSpec::new(
        "upgrade",
        "-f= -i -l= -o= --atomic --ca-file= --cert-file= --cleanup-on-fail --create-namespace --dependency-update --description= --devel --dry-run? --force --history-max= --install --key-file= --labels= --no-hooks \
        --output= --password= --post-renderer= --repo= --reset-values --reset-then-reuse-values --reuse-values --set= --set-file= --set-json= --set-string= --skip-crds --timeout= --username= --values= --verify --version= --wait --wait-for-jobs",
    ),
    SubcommandSpec::new(
        "rollback",
        "--cleanup-on-fail --dry-run? --force --history-max= --no-hooks --recreate-pods --timeout= --wait --wait-for-jobs",
    ),
];
