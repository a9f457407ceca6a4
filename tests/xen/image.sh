#!/bin/sh
# mmdebstrap's customize hook: ROOT becomes a dom0 that boots in seconds under emulation, and
# OUT gets what QEMU loads. `image.py` calls this; a change here makes a new image.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1

kernel=$(basename "$root"/lib/modules/*)
cp "$root/boot/vmlinuz-$kernel" "$OUT/vmlinuz"
# QEMU's multiboot loader wants the ELF file, not the compressed one.
zcat "$root/boot/xen-$XEN_VERSION-amd64.gz" > "$OUT/xen"

# Modules that this machine cannot use: 300 MB of them.
(cd "$root/usr/lib/modules/$kernel/kernel" && rm -rf sound arch/x86/kvm \
    drivers/gpu drivers/media drivers/net drivers/infiniband drivers/scsi drivers/staging \
    drivers/usb drivers/iio drivers/hwmon drivers/input drivers/mtd drivers/isdn drivers/video \
    drivers/bluetooth drivers/target drivers/ata drivers/mmc drivers/nvme drivers/hid \
    drivers/i2c drivers/edac drivers/crypto drivers/md drivers/power drivers/leds \
    drivers/platform drivers/rtc drivers/spi drivers/thermal drivers/mfd drivers/regulator \
    drivers/comedi drivers/message drivers/pcmcia drivers/firewire \
    net/bluetooth net/wireless net/mac80211 net/sctp net/tipc net/ceph net/rds net/netfilter \
    net/ipv4 net/ipv6 net/bridge net/openvswitch net/sched net/batman-adv \
    fs/xfs fs/btrfs fs/ocfs2 fs/gfs2 fs/ceph fs/smb fs/cifs fs/nfs fs/nfsd fs/f2fs fs/jfs \
    fs/reiserfs fs/ntfs3 fs/ubifs)
chroot "$root" depmod "$kernel"
rm -rf "$root"/boot/* "$root"/usr/share/hwdata

install -D -m 0755 "$here/dom0/room-run" "$root/usr/local/sbin/room-run"
install -D -m 0644 "$here/dom0/room.service" "$root/etc/systemd/system/room.service"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../room.service "$root/etc/systemd/system/multi-user.target.wants/room.service"
echo dom0 > "$root/etc/hostname"
echo '127.0.0.1 localhost dom0' > "$root/etc/hosts"
printf '%s\n' '/dev/vda / ext4 defaults,noatime 0 0' \
    'xenfs /proc/xen xenfs defaults,nofail 0 0' > "$root/etc/fstab"
printf '%s\n' xen-evtchn xen-gntdev xen-gntalloc xen-privcmd 9p 9pnet_virtio \
    > "$root/etc/modules-load.d/room.conf"
# The guests' consoles are kept.
mkdir -p "$root/var/log/xen/console"
echo 'XENCONSOLED_ARGS="--log=guest"' >> "$root/etc/default/xen"
chroot "$root" passwd -d root >/dev/null

# Seconds each under emulation, and nothing here needs them: device nodes come from devtmpfs,
# modules from modules-load.d.
for unit in xendomains.service systemd-timesyncd.service apt-daily.timer \
    apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer getty@tty1.service serial-getty@hvc0.service systemd-networkd.service \
    systemd-logind.service systemd-udevd.service systemd-udevd-kernel.socket \
    systemd-udevd-control.socket systemd-udev-trigger.service systemd-journal-flush.service \
    systemd-sysusers.service modprobe@configfs.service modprobe@dm_mod.service \
    modprobe@efi_pstore.service modprobe@fuse.service modprobe@loop.service \
    modprobe@drm.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

pack() { # DIRECTORY IMAGE
    (cd "$1" && find . | cpio -o -H newc --quiet | gzip -1) > "$2"
}

# dom0's initramfs: busybox and the modules for the root file system.
initramfs=$(mktemp -d)
trap 'rm -rf "$initramfs"' EXIT
mkdir -p "$initramfs/dom0/bin" "$initramfs/dom0/dev" "$initramfs/dom0/proc" \
    "$initramfs/dom0/sys" "$initramfs/dom0/mnt" "$initramfs/dom0/modules"
cp "$root/bin/busybox" "$initramfs/dom0/bin/busybox"
: > "$initramfs/dom0/modules/list"
for module in virtio_pci virtio_blk ext4; do
    chroot "$root" modprobe -S "$kernel" --show-depends "$module" |
    while read -r insmod path _; do
        name=$(basename "$path")
        if [ "$insmod" = insmod ] && [ ! -e "$initramfs/dom0/modules/$name" ]; then
            cp "$root$path" "$initramfs/dom0/modules/$name"
            echo "$name" >> "$initramfs/dom0/modules/list"
        fi
    done
done
install -m 0755 "$here/dom0/init.dom0" "$initramfs/dom0/init"
pack "$initramfs/dom0" "$OUT/initrd"

# The guest: dom0's kernel, and busybox with a small load.
mkdir -p "$initramfs/guest/bin" "$initramfs/guest/dev" "$initramfs/guest/proc" \
    "$initramfs/guest/sys" "$root/root/guest"
cp "$root/bin/busybox" "$initramfs/guest/bin/busybox"
install -m 0755 "$here/dom0/init.guest" "$initramfs/guest/init"
pack "$initramfs/guest" "$root/root/guest/initrd"
cp "$OUT/vmlinuz" "$root/root/guest/vmlinuz"
