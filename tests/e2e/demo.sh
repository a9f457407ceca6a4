#!/bin/sh
# What `make demo` shows: a simulated hypervisor, the collector on it, and the answers.
set -eu

bin=${BIN:-.venv/bin}
dir=.demo
store=$dir/store
socket=$dir/control.sock
rm -rf "$dir"
mkdir -p "$dir"

bold= plain=
if [ -t 1 ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi
say() { printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"; "$@"; }
ctl() { say "$bin/xtracectl" --store "$store" --socket "$socket" "$@"; }

printf 'Collecting from a simulated hypervisor (4 CPUs, 3 guests) into %s ...\n' "$store"
"$bin/xtraced" --source sim --store "$store" --socket "$socket" \
    --set sim.rate=2M --set store.keep_free=16M --set collect.flush_interval=1s \
    2>"$dir/log" &
service=$!
trap 'kill $service 2>/dev/null || true' EXIT INT TERM

# `status` exits with 3 until somebody listens.
tries=0
until "$bin/xtracectl" --socket "$socket" status >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ] || ! kill -0 "$service" 2>/dev/null; then
        printf 'the service did not start; its log:\n'
        cat "$dir/log"
        exit 1
    fi
    sleep 0.1
done
sleep 3

ctl status
ctl top --batch --count 1 --delay 1
ctl flush
ctl dump --limit 12
ctl rotate
ctl stop
wait "$service"
trap - EXIT INT TERM
ctl summary --by domain --section runstates --section volume --top 6
ctl summary --domain 1 --section exits --by domain --top 1
ctl verify
printf '\nThe segments stay in %s; the log is %s/log.\n' "$store" "$dir"
