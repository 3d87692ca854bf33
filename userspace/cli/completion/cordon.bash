# SPDX-License-Identifier: Apache-2.0
# bash completion of cordon(1). What there is to complete comes from the program
# itself (its --help), so it is never out of date.

_cordon_words() {
	"${COMP_WORDS[0]}" "$@" --help 2>/dev/null
}

_cordon() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} word verb= sub=
	local i tables=" session job image workspace run-registry audit receipt skill file artifact egress "
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		[[ $word == -- ]] && return # the command's own words
		[[ $word == -* ]] && continue
		[[ ${COMP_WORDS[i - 1]} == --root ]] && continue
		if [[ -z $verb ]]; then
			verb=$word
		elif [[ -z $sub && $tables == *" $verb "* ]]; then
			sub=$word
		fi
	done
	case $prev in
	--root | --carrier | --stdin | --output | --environment | --store | --db | --key | --checkpoint | --anchor)
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	--surface) word="chat agent_run deterministic_task skill_task" ;;
	--egress) word="none allowlist default_internet" ;;
	--state) word="alive archived gone" ;;
	*) word= ;;
	esac
	if [[ -n $word ]]; then
		COMPREPLY=($(compgen -W "$word" -- "$cur"))
	elif [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$(_cordon_words $verb $sub | sed -n 's/^ .*\(--[a-z][a-z-]*\).*/\1/p')" -- "$cur"))
	elif [[ -z $verb ]]; then
		COMPREPLY=($(compgen -W "$(_cordon_words | sed -n 's/^  \([a-z-]*\) .*/\1/p')" -- "$cur"))
	elif [[ -z $sub && $tables == *" $verb "* ]]; then
		COMPREPLY=($(compgen -W "$(_cordon_words $verb | sed -n 's/^  \([a-z-]*\) .*/\1/p')" -- "$cur"))
	fi
}
complete -o default -F _cordon cordon
