#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The shells complete command lines of gpumapctl: each command and each option
# that the help has, and no other, and what else a line can go on with.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

scripts=$abs_top_srcdir/contrib/completion
if [ ! -x "$GPUMAPCTL" ]; then
	skip "completion" "there is no gpumapctl in this build"
	tap_done
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-completion.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT
PATH=${GPUMAPCTL%/*}:$PATH
export PATH

# ---- bash -------------------------------------------------------------------

# Complete each line of the input, as readline would: it divides words at = and
# : as well.  Print what a line can go on with; "default" and "dirnames" stand
# for files and folders.
cat >"$folder/answer" <<'EOT'
source "$1"
compopt() { answer="$answer${answer:+ }$2"; }
_command_offset() { answer="$answer${answer:+ }command:${COMP_WORDS[$1]}"; }
while IFS= read -r COMP_LINE; do
	COMP_WORDS=()
	rest=$COMP_LINE
	while [[ $rest =~ ^[[:blank:]]*([=:]+|[^=:[:blank:]]+) ]]; do
		COMP_WORDS+=("${BASH_REMATCH[1]}")
		rest=${rest:${#BASH_REMATCH[0]}}
	done
	[[ -z $rest ]] || COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	answer=
	_gpumapctl
	printf '%s\n' "$answer${COMPREPLY:+${answer:+ }${COMPREPLY[*]}}"
done
EOT

# answer LINE... - what bash can go on with, a line for each.
answer() {
	printf '%s\n' "$@" |
		bash --norc "$folder/answer" "$scripts/bash/gpumapctl"
}

# goes_on LINE WANTED
goes_on() {
	got=$(answer "$1")
	check "\"$1\" goes on with $2" \
		"$([ "$got" = "$2" ] || echo "not with: $got")"
}

for shell in bash zsh fish; do
	file=$(echo "$scripts/$shell"/*)
	check "gpumapctl prints the script for $shell" "$(
		gpumapctl completion $shell | cmp - "$file" 2>&1)"
	if command -v $shell >/dev/null; then
		check "$shell reads it" "$($shell -n "$file" 2>&1)"
	else
		skip "$shell reads it" "there is no $shell here"
	fi
done

# "NAME: REST" of each form of the command line in the help.
gpumapctl --help | sed -nE \
	-e 's/^  ([a-z]+( [a-z]+)?)( .*)?$/\1:\3/p' >"$folder/forms"

# options FORMS - the long options of these lines, one each.
options() { grep -o -e '--[a-z][a-z-]*' | sort -u; }

common=$(gpumapctl --help | sed -n 1p | options)
placing=$(sed -n '/^plan: *--nodes/d; s/^plan://p' "$folder/forms" | options |
	grep -vx -e --node -e --commit)
check "the help has commands and options" "$(
	[ "$(wc -l <"$folder/forms")" -gt 30 ] || cat "$folder/forms"
	[ "$(echo "$common" | wc -l)" -eq 6 ] || echo "$common"
	[ "$(echo "$placing" | wc -l)" -gt 10 ] || echo "$placing")"

# differences WANTED GOT - lines that are on one of two lists only.
differences() {
	{
		echo "$1" | sed 's/^/lacks /'
		echo "$2" | sed 's/^/also has /'
	} | awk '
		{ n[$NF]++; line[$NF] = $0 }
		END { for (w in n) if (n[w] != 1 + 1) print line[w], n[w] }'
}

words() { tr ' ' '\n' | sort; }

check "bash completes each command, and no other" "$(
	differences "$(cut -d : -f 1 "$folder/forms" | cut -d ' ' -f 1 |
		sort -u)" "$(answer 'gpumapctl ' | words)")"
cut -d : -f 1 "$folder/forms" | sort -u >"$folder/names"
check "and each second word" "$(
	sed -n 's/ .*//p' "$folder/names" | sort -u | while read -r first; do
		differences "$(sed -n "s/^$first //p" "$folder/names")" \
			"$(answer "gpumapctl $first " | words)"
	done)"
sed 's/.*/gpumapctl & --/' "$folder/names" |
	bash --norc "$folder/answer" "$scripts/bash/gpumapctl" \
		>"$folder/offered"
check "and each option of each command, and no other" "$(
	paste -d : "$folder/names" "$folder/offered" |
		while IFS=: read -r name offered; do
			{
				echo "$common"
				sed -n "s/^$name://p" "$folder/forms" | options
				! grep -q "^$name:.*OPTIONS OF plan" \
					"$folder/forms" || echo "$placing"
			} | sort -u >"$folder/wanted"
			differences "$(cat "$folder/wanted")" \
				"$(echo "$offered" | words)" |
				sed "s/^/$name /"
		done)"

goes_on 'gpumapctl lo' 'load'
goes_on 'gpumapctl un' 'undrain uncordon'
goes_on 'gpumapctl no-such ' \
	'--instance --runtime-dir --json --progress --help --version'
goes_on 'gpumapctl --json who --inst' '--instance'
goes_on 'gpumapctl load x --any-u' '--any-user'
goes_on 'gpumapctl load x --model ' 'default'
goes_on 'gpumapctl load x --link ' 'dirnames'
goes_on 'gpumapctl plan --node=' 'default'
goes_on 'gpumapctl wait --timeout ' ''
goes_on 'gpumapctl export x --for ' \
	'llama.cpp ollama vllm sglang mistralrs accelerate env'
goes_on 'gpumapctl export x --for v' 'vllm'
goes_on 'gpumapctl export x --format=' 'json argv env yaml'
goes_on 'gpumapctl export x --format=a' 'argv'
goes_on 'gpumapctl export x --form' '--format'
goes_on 'gpumapctl plan --strategy f' 'fill fewest'
goes_on 'gpumapctl run --model m --strategy f' 'fill fewest'
goes_on 'gpumapctl mesh publish m --topology ' \
	'nospace nospace nospace data tensor= pipeline= mixed='
goes_on 'gpumapctl publish x --spec 0:1 --model ' 'default'
goes_on 'gpumapctl completion ' 'bash zsh fish'
goes_on 'gpumapctl completion bash ' \
	'--instance --runtime-dir --json --progress --help --version'
goes_on 'gpumapctl run --reserve 1G ' 'command:'
goes_on 'gpumapctl run --spec 0:1 -- env A=1 --l' 'command:env'
goes_on 'gpumapctl run --no-agent r' 'run'
goes_on 'gpumapctl layers ' ''
goes_on 'gpumapctl --instance no-such --runtime-dir=/no/such drain ' ''

check "each offered value is one that the command takes" "$(
	for line in 'scatter --op' 'collective mesh group --op' \
		'export x --for' 'export x --format' 'choose --by' \
		'mask publish x --kind' 'plan --model m --strategy'; do
		offered=$(answer "gpumapctl $line ")
		[ -n "$offered" ] || echo "$line: nothing"
		for word in $offered; do
			# shellcheck disable=SC2086 # words of a command line
			! gpumapctl --instance no-such $line "$word" 2>&1 |
				grep -q "not \"$word\"" || echo "$line $word"
		done
	done)"

# ---- zsh and fish -----------------------------------------------------------

# The functions of zsh's completion system, as far as the script calls them.
cat >"$folder/answer.zsh" <<'EOT'
compdef() { : }
compset() { : }
compadd() { print -rn -- "${@[-1]} " }
_describe() { print -rn -- ${(P)2} }
_files() { print -rn -- files $* }
_normal() { print -rn -- command $words[CURRENT] of $words[1] }
source $1
while IFS= read -r line; do
	words=(${=line})
	[[ $line != *' ' ]] || words+=('')
	CURRENT=$#words
	_gpumapctl
	print
done
EOT
lines='gpumapctl lo
gpumapctl plan --node 
gpumapctl load x --link=/
gpumapctl export x --format=a
gpumapctl load x --map
gpumapctl mesh publish m --topology t
gpumapctl run --any -- gpumapctl lay'
if command -v zsh >/dev/null; then
	got=$(echo "$lines" | zsh -f "$folder/answer.zsh" \
		"$scripts/zsh/_gpumapctl")
	wanted='load:load a model onto the rows of a layer map, and hold it there
files
files -/
--format=argv:
--map:MAP
tensor= 
command lay of gpumapctl'
	check "zsh completes likewise" \
		"$([ "$got" = "$wanted" ] || echo "$got")"
else
	skip "zsh completes likewise" "there is no zsh here"
fi

mkdir "$folder/home" "$folder/home/somewhere"
: >"$folder/home/something"
if command -v fish >/dev/null; then
	# shellcheck disable=SC2016 # fish expands it
	got=$(cd "$folder/home" && echo "$lines" | sed 's,=/,=some,' |
		HOME=$folder/home fish --no-config -c '
			source $argv[1]
			while read --local --delimiter=\n line
				complete --do-complete "$line"
			end' "$scripts/fish/gpumapctl.fish")
	wanted='load	load a model onto the rows of a layer map, and hold it there
something
somewhere/
--link=somewhere/
--format=argv
--map	MAP
tensor=
layers	which row holds each layer of a map'
	check "fish completes likewise" \
		"$([ "$got" = "$wanted" ] || echo "$got")"
else
	skip "fish completes likewise" "there is no fish here"
fi
tap_done
