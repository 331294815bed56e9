# Runs a program that sees a new root directory: system programs (read-only), the files of the plan, an empty /tmp.
# Arguments: DIRECTORY (of the plan) MOUNT_POINT USER (to become; empty for none) LIMITS (of prlimit) LAUNCHER (the worker's binary) PATHS (more to see) -- PROGRAM…
# Writes `ready` to standard output before the program starts; without that line, nothing was run.
set -eu
umask 022
directory=$1 mount_point=$2 user=$3 limits=$4 launcher=$5
shift 5
[ -x "$launcher" ]
mount -t tmpfs -o mode=755,size=1m,nosuid,nodev sandbox "$mount_point"
cd "$mount_point"
mkdir work proc tmp dev etc old
: > .launcher
mount --bind -o ro,nosuid,nodev "$launcher" .launcher

show() {
    if [ -L "$1" ]; then
        mkdir -p ".${1%/*}"
        [ -L ".$1" ] || ln -s "$(readlink "$1")" ".$1"
    elif [ -d "$1" ]; then
        mkdir -p ".$1"
        mount --rbind -o ro,nosuid,nodev "$1" ".$1"
    elif [ -e "$1" ]; then
        mkdir -p ".${1%/*}"
        : > ".$1"
        mount --bind -o ro,nosuid,nodev "$1" ".$1"
    fi
}
for path in /usr /bin /sbin /lib /lib32 /lib64 /etc/alternatives /etc/ld.so.cache /etc/localtime; do show "$path"; done
while [ "$1" != -- ]; do
    show "$1"
    shift
done
shift
for device in null zero full random urandom; do
    : > "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mount --bind -o nosuid,nodev "$directory" work
mount -t tmpfs -o mode=1777,size=64m,nosuid,nodev tmp tmp
mount -t proc -o nosuid,nodev,noexec proc proc
pivot_root . old
umount -l /old
rmdir /old
mount -o remount,bind,ro,nosuid,nodev /
cd /work
unset OLDPWD
as_user=
if [ -n "$user" ]; then
    chown -hR "$user:$user" .
    as_user="--reuid $user --regid $user --clear-groups"
fi
echo ready
status=0
# shellcheck disable=SC2086
setpriv --no-new-privs $as_user unshare --user --map-user=65534 --map-group=65534 -- /.launcher launch confine prlimit $limits -- "$@" || status=$?
exit "$status"
