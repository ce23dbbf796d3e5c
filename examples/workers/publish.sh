#!/bin/sh
# Publishes pages into a directory, and unpublishes them: a worker in sh that uses curl, sed and awk.
#
# RECOURSE_SERVER is the server's URL, RECOURSE_API_KEY its key, PAGES the directory. SLOW is the number of seconds that
# each page takes, to see heartbeats. sed is not a JSON parser: this script reads the fields in the order in which the
# server writes them, and refuses input of any other form. With jq it would be shorter, and accept any input.
set -u
server=${RECOURSE_SERVER:-http://127.0.0.1:8080}
pages=${PAGES:-./pages}
stopping=
trap 'stopping=yes' TERM INT

# post PATH BODY [KEY]: prints the response and, on the last line, its status: 000 if there was none.
post() {
	{
		echo 'Content-Type: application/json'
		[ -z "${RECOURSE_API_KEY-}" ] || echo "Authorization: Bearer $RECOURSE_API_KEY"
		[ -z "${3-}" ] || echo "Idempotency-Key: $3"
	} | curl -s --max-time 30 -H @- -w '\n%{http_code}\n' --data-binary "$2" "$server$1"
}

# insist PATH BODY [KEY]: posts until the response is final; sets status and answer.
insist() {
	pause=1
	while :; do
		answer=$(post "$@")
		status=$(printf '%s\n' "$answer" | sed -n '$p')
		case $status in
		000 | 429 | 5??) ;;
		*) case $answer in *:key_in_flight\"*) ;; *) return ;; esac ;;
		esac
		echo "trying again: $1: $answer" >&2
		[ -z "$stopping" ] || return
		sleep $pause
		[ $pause -ge 8 ] || pause=$((pause * 2))
	done
}

# field NAME: a field of the task before its input; the server alone writes these fields.
field() {
	printf '%s\n' "$answer" | sed -n '1s/^{"data":\[{\("[a-z]*":\("[^"]*"\|[0-9]*\),\)*"'"$1"'":"\([^"]*\)".*/\3/p'
}

# keep ID LEASE SECONDS: heartbeats until it is killed, or the lease is lost.
keep() {
	while sleep "$3"; do
		post "/v1/tasks/$1/heartbeat" "{\"lease\":\"$2\"}" | sed -n '$p' | grep -q '^4' && return
	done
}

# work TYPE NAME: does the work; sets what and said.
work() {
	sleep "${SLOW:-0}"
	what=complete
	case $1 in
	page.publish)
		file=$pages/$2.txt
		if printf 'This is the page %s.\n' "$2" >"$file.new" && mv "$file.new" "$file"; then
			said="\"output\":{\"file\":\"$2.txt\"}"
		else
			what=fail said='"error":{"code":"not_written","detail":"the page could not be written"},"retryable":true'
		fi
		;;
	page.unpublish)
		rm -f "$pages/$2.txt"
		said='"output":{}'
		;;
	esac
}

mkdir -p "$pages" || exit
n=0
while [ -z "$stopping" ]; do
	n=$((n + 1)) # all tries of a claim have the same key, so a lost response does not lose tasks
	insist /v1/tasks/claim '{"types":["page.publish","page.unpublish"],"worker":"publish.sh","wait":"5s"}' "publish.sh-$$-$(date +%s)-$n"
	case $status in
	200) ;;
	204) continue ;;
	*)
		[ -n "$stopping" ] && exit
		echo "the server refuses: $answer" >&2
		exit 1
		;;
	esac
	id=$(field id) type=$(field type)
	# Only the server writes the fields after the input, so the last lease is the task's own.
	lease=$(printf '%s\n' "$answer" | sed -n '1s/.*"lease":"\([A-Za-z0-9_-]*\)","lease_until":.*/\1/p')
	ms=$(printf '%s\n' "$answer" | sed -n '1s/.*"lease_ms":\([0-9]*\).*/\1/p')
	name=$(printf '%s\n' "$answer" | sed -n '1s/.*"input":{"name":"\([a-z0-9][a-z0-9-]*\)"},"lease":"[^"]*","lease_until":.*/\1/p')

	keep "$id" "$lease" "$(awk "BEGIN { print $ms / 3000 }")" &
	keeper=$!
	if [ -n "$name" ]; then
		work "$type" "$name"
	else
		what=fail said='"error":{"code":"bad_input","detail":"a name has small letters, digits and - only"}'
	fi
	insist "/v1/tasks/$id/$what" "{\"lease\":\"$lease\",$said}"
	kill $keeper 2>/dev/null
	wait $keeper 2>/dev/null
	echo "$what $type $name: $status"
done
