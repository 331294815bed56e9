# Starts a cluster in the namespaces of this shell: etcd, control plane, nodes. Read by `scenarios`.
#
#   10.244.0.1          the outside of the cluster: Redis, the agent that reports by callback
#   10.244.N.0/24       the pods of node N, on the bridge nodeN
#   10.96.0.0/16        Services
: "${CLUSTER:?}" "${CGROUP:?}"
OUTSIDE=10.244.0.1
DNS=10.96.0.10
API=https://127.0.0.1:6443
state=/run/cluster
logs=$CLUSTER/logs
pki=$state/pki
export KUBECONFIG=$state/kubeconfig
PATH=$CLUSTER/bin:$PWD/target/deploy-tools/bin:/usr/sbin:$PATH

# start NAME COMMAND…: a process of the cluster, with a log of its name.
start() {
    local name=$1
    shift
    "$@" >>"$logs/$name.log" 2>&1 </dev/null &
    eval "pid_${name//-/_}=$!"
}

# wait_until SECONDS WHAT COMMAND…
wait_until() {
    local seconds=$1 what=$2 end
    shift 2
    end=$((SECONDS + seconds))
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { echo "$what: not within $seconds s" && return 1; }
        sleep 0.5
    done
}

isolate_machine() {
    local folder
    # What a node writes is seen by no one else, and is gone at the end.
    for folder in /run /var/lib /var/log; do mount -t tmpfs tmpfs "$folder"; done
    mkdir -p "$pki" "$logs"
    printf 'nameserver %s\nsearch svc.cluster.local\n' "$DNS" >$state/resolv.conf
    mount --bind $state/resolv.conf "$(readlink -f /etc/resolv.conf)" 2>/dev/null ||
        { touch /etc/resolv.conf && mount --bind $state/resolv.conf /etc/resolv.conf; }
    shield_kernel_settings
    ip link set lo up
    add_bridge outside 0
    # Without a default route, a packet to a Service has no source address.
    ip route add default dev outside
    sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
}

# The kubelet sets these for the whole machine: here it writes files.
shield_kernel_settings() {
    local setting
    for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
        mkdir -p "$state/kernel/${setting%/*}"
        cat "/proc/sys/$setting" >"$state/kernel/$setting"
        mount --bind "$state/kernel/$setting" "/proc/sys/$setting" || return
    done
}

# A bridge without a hardware address of its own has that of a pod, and another one when that pod ends.
add_bridge() { # NAME N
    ip link add name "$1" address "02:00:00:00:00:0$2" type bridge && ip addr add "10.244.$2.1/24" dev "$1" && ip link set "$1" up
}

# sign NAME SUBJECT [NAMES]: key and certificate of the cluster's authority.
sign() {
    openssl req -new -newkey rsa:2048 -nodes -keyout "$pki/$1.key" -out "$pki/$1.csr" -subj "$2" 2>/dev/null
    openssl x509 -req -in "$pki/$1.csr" -CA $pki/ca.crt -CAkey $pki/ca.key -CAcreateserial -days 2 -out "$pki/$1.crt" \
        -extfile <(printf 'extendedKeyUsage=serverAuth,clientAuth\n%s\n' "${3:+subjectAltName=$3}") 2>/dev/null
}

make_certificates() {
    openssl req -x509 -newkey rsa:2048 -nodes -keyout $pki/ca.key -out $pki/ca.crt -days 2 -subj /CN=cluster 2>/dev/null
    sign api /CN=api "DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:$OUTSIDE,IP:10.96.0.1"
    sign admin /O=system:masters/CN=admin
    sign front /CN=front
    sign figures /CN=figures DNS:figures.kube-system.svc
    openssl genrsa -out $pki/accounts.key 2048 2>/dev/null
    cat >"$KUBECONFIG" <<YAML
apiVersion: v1
kind: Config
current-context: cluster
contexts: [{name: cluster, context: {cluster: cluster, user: admin, namespace: goalmill}}]
clusters: [{name: cluster, cluster: {server: "$API", certificate-authority: $pki/ca.crt}}]
users: [{name: admin, user: {client-certificate: $pki/admin.crt, client-key: $pki/admin.key}}]
YAML
}

start_control_plane() {
    start etcd etcd --data-dir $state/etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --log-level warn --logger zap
    start api kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 0.0.0.0 --advertise-address "$OUTSIDE" --secure-port 6443 \
        --authorization-mode RBAC --service-cluster-ip-range 10.96.0.0/16 --client-ca-file $pki/ca.crt \
        --tls-cert-file $pki/api.crt --tls-private-key-file $pki/api.key \
        --kubelet-preferred-address-types InternalIP --kubelet-client-certificate $pki/admin.crt --kubelet-client-key $pki/admin.key --kubelet-certificate-authority $pki/ca.crt \
        --service-account-issuer https://kubernetes.default.svc --service-account-key-file $pki/accounts.key \
        --service-account-signing-key-file $pki/accounts.key \
        --requestheader-client-ca-file $pki/ca.crt --requestheader-allowed-names front --requestheader-username-headers X-Remote-User \
        --requestheader-group-headers X-Remote-Group --requestheader-extra-headers-prefix X-Remote-Extra- \
        --proxy-client-cert-file $pki/front.crt --proxy-client-key-file $pki/front.key
    wait_until 120 "the API server is ready" kubectl get --raw /readyz || return
    start controllers kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false --root-ca-file $pki/ca.crt \
        --service-account-private-key-file $pki/accounts.key
    start scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false
    # Without rights to change limits of the kernel, connection tracking stays as it is.
    start proxy kube-proxy --kubeconfig "$KUBECONFIG" --proxy-mode iptables --masquerade-all --oom-score-adj 0 --hostname-override node1 \
        --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0
    kubectl create namespace goalmill
    serve_names
}

serve_names() {
    start names python3 tests/cluster/names.py "$OUTSIDE" "$API" $pki/admin.crt $pki/admin.key $pki/ca.crt
    add_outside_service kube-dns "clusterIP: $DNS," 53 53 UDP
}

# add_outside_service NAME FIELDS PORT TARGET PROTOCOL: a Service of a process outside of the cluster.
add_outside_service() {
    kubectl apply -f - <<YAML
apiVersion: v1
kind: Service
metadata: {name: $1, namespace: kube-system}
spec: {$2 ports: [{name: it, port: $3, targetPort: $4, protocol: $5}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: $1, namespace: kube-system}
subsets: [{addresses: [{ip: $OUTSIDE}], ports: [{name: it, port: $4, protocol: $5}]}]
YAML
}

# The figures that an adapter for external metrics would bring.
serve_figures() { # API of the scheduler
    start figures python3 tests/cluster/figures.py "$OUTSIDE" 9443 $pki/figures.crt $pki/figures.key "$1"
    add_outside_service figures "" 443 9443 TCP
    kubectl apply -f - <<YAML
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  group: external.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  caBundle: $(base64 -w 0 $pki/ca.crt)
  service: {name: figures, namespace: kube-system}
YAML
}

# Docker's own runtime, which may not lower the OOM score of a process here.
write_runtime() {
    cat >$state/runtime <<'SH'
#!/bin/bash
words=("$@")
while [ $# -gt 0 ]; do
    case $1 in --bundle) bundle=$2 ;; esac
    shift
done
if [ -n "${bundle:-}" ] && [ -e "$bundle/config.json" ]; then
    jq -c 'del(.process.oomScoreAdj)' "$bundle/config.json" >"$bundle/config.new" && mv "$bundle/config.new" "$bundle/config.json"
fi
exec runc "${words[@]}"
SH
    chmod +x $state/runtime
}

# start_node N: a Docker daemon and a kubelet with mounts of their own.
start_node() {
    local number=$1 name=node$1
    add_bridge "$name" "$number"
    sign "$name" "/O=system:nodes/CN=$name" "DNS:$name,IP:10.244.$number.1"
    mkdir -p $state/"$name"
    cat >$state/"$name"/kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 10.244.$number.1
port: 10250
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $pki/$name.crt
tlsPrivateKeyFile: $pki/$name.key
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
oomScoreAdj: 0
clusterDNS: [$DNS]
clusterDomain: cluster.local
resolvConf: $state/resolv.conf
nodeStatusUpdateFrequency: 5s
YAML
    start "$name" unshare --mount bash -c '
        set -e
        name=$1 state=$2 number=$3
        mount -t tmpfs tmpfs /var/log
        mount -t tmpfs tmpfs /var/lib
        mkdir -p /var/log/pods /var/lib/kubelet
        dockerd -H "unix://$state/$name/docker.sock" --data-root /var/lib/docker --exec-root "$state/$name/exec" --pidfile "$state/$name/docker.pid" \
            -b "$name" --iptables=false --ip-masq=false --ip6tables=false --oom-score-adjust 0 --cgroup-parent "/$CGROUP" \
            --add-runtime "plain=$state/runtime" --default-runtime plain >>"$logs/$name-docker.log" 2>&1 &
        until [ -e "$state/$name/images" ]; do sleep 0.2; done
        exec kubelet --config "$state/$name/kubelet.yaml" --kubeconfig "$KUBECONFIG" --hostname-override "$name" --node-ip "10.244.$number.1" \
            --container-runtime docker --container-runtime-endpoint "unix://$state/$name/dockershim.sock" --docker-endpoint "unix://$state/$name/docker.sock" --network-plugin= \
            --pod-infra-container-image pause:1 --root-dir /var/lib/kubelet' node "$name" "$state" "$number"
}

docker_of() { # N WORDS…
    local node=$1
    shift
    DOCKER_BUILDKIT=1 /usr/bin/docker -H unix://$state/node"$node"/docker.sock "$@"
}

# Images are made on node 1 and copied to the others.
make_images() {
    local tags=(pause:1 redis:7.4-bookworm goalmill:new goalmill:old goalmill:collector) work=$state/images
    wait_until 60 "Docker answers" docker_of 1 version || return
    mkdir -p $work/{pause,new,old,collector}
    gcc -O -static -o $work/pause/pause tests/cluster/pause.c && gcc -O -static -o $work/collector/collector tests/cluster/collector.c || return
    tar -C $work/pause -c . | docker_of 1 import --change 'ENTRYPOINT ["/pause"]' - pause:1 || return
    docker_of 1 import - redis:7.4-bookworm <"$CLUSTER/images/redis" || return
    docker_of 1 import - goalmill-stand-in/runtime <"$CLUSTER/images/runtime" || return
    strip -o $work/new/goalmill "$BINARY" || return
    make_other_build || return
    local build
    for build in new old; do
        docker_of 1 build -q -f deploy/Dockerfile --build-arg RUNTIME=goalmill-stand-in/runtime --build-arg BINARY=prebuilt -t goalmill:$build $work/$build || return
    done
    printf 'FROM goalmill:new\nCOPY collector /collector\n' | docker_of 1 build -q -t goalmill:collector -f - $work/collector || return
    wait_until 60 "Docker of node 2 answers" docker_of 2 version || return
    docker_of 1 save "${tags[@]}" | docker_of 2 load || return
    rm -rf $work
    touch $state/node1/images $state/node2/images
}

# The other build: the one that is given, or this one with another commit in its place.
make_other_build() {
    local work=$state/images commit
    if [ -n "$OLD_BINARY" ]; then
        strip -o $work/old/goalmill "$OLD_BINARY"
        return
    fi
    commit=$("$work/new/goalmill" version | sed -n 's/.*(\(.*\)).*/\1/p')
    [ ${#commit} -ge 7 ] || { echo "the program names no commit, so there is no other build of it" && return 1; }
    LC_ALL=C sed "s/$commit/$(tr 0-9a-f a-f0-9 <<<"$commit")/g" $work/new/goalmill >$work/old/goalmill
    chmod +x $work/old/goalmill
}

start_cluster() {
    isolate_machine && make_certificates && write_runtime && start_node 1 && start_node 2 && start_control_plane && make_images &&
        wait_until 120 "both nodes are there" kubectl get node node1 node2 &&
        kubectl wait --for condition=Ready node --all --timeout 120s
}
