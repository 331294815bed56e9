#!/bin/sh
# Submits jobs and gets their results with redis-cli alone.
# REDIS_CLI: redis-cli with its options (address, user). SECONDS_MAX: how long to wait for each end.
set -eu
redis="${REDIS_CLI:-redis-cli}"
wait_ms=$((${SECONDS_MAX:-600} * 1000))

# Prints the value of a field of a result, or nothing.
field() {
    printf '%s\n' "$2" | awk -v name="$1" 'found { print; exit } $0 == name { found = 1 }'
}

# Waits for the end of a submission and prints its result: names and values of fields, a line each.
await() {
    $redis XREAD BLOCK "$wait_ms" STREAMS "goalmill:results:$1" 0
}

# Prints what became of a submission, as one line.
report() {
    result=$(await "$2")
    case $(field status "$result") in
        completed) echo "$1: completed, $(field final_output "$result")" ;;
        refused) echo "$1: refused, $(field problem "$result")" ;;
        "") echo "$1: no result in time" ;;
        *) echo "$1: $(field status "$result"), $(field failures "$result")" ;;
    esac
}

# The id of the entry is the id of the submission.
plan=$($redis XADD goalmill:goals '*' plan 'steps: [{id: hi, agent_type: echo, inputs: {text: hello}}]')
report plan "$plan"

goal=$($redis XADD goalmill:goals '*' goal 'Plan a 3-day trip to Paris in May with a $2000 budget')
report goal "$goal"

broken=$($redis XADD goalmill:goals '*' plan 'steps: [{id: pay, agent_type: fail, inputs: {class: permanent, message: no money}}]')
report broken "$broken"

wrong=$($redis XADD goalmill:goals '*' plan 'steps: [{id: a, agent_type: echo, depends_on: [nothing]}]')
report wrong "$wrong"

# An id of your own makes a submission safe to repeat. Other content under the same id is refused under the id of its entry.
$redis XADD goalmill:goals '*' id nightly plan 'steps: [{id: a, agent_type: echo}]' >/dev/null
again=$($redis XADD goalmill:goals '*' id nightly plan 'steps: [{id: b, agent_type: echo}]')
report nightly nightly
report again "$again"

# What was refused in the last week.
$redis XREVRANGE goalmill:refused:default + - COUNT 10 | grep -c '^INVALID_PLAN$' | sed 's/^/refused for INVALID_PLAN: /'
