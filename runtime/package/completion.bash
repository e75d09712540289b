# completion.bash - completion of the options of `reprise`, for bash; installed where bash-completion looks for it.
_reprise_offer() { # lines; not by process substitution, which needs /dev/fd
  if [ -n "$1" ]; then mapfile -t COMPREPLY <<<"$1"; fi
}
_reprise() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  case $before in
    -e | -l) return ;;
    --arch)
      _reprise_offer "$(compgen -W "native x86-64-v3 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120" -- "$word")"
      return ;;
    --build-kernels)
      _reprise_offer "$(compgen -d -- "$word")"
      return ;;
  esac
  if [[ $word == -* ]]; then
    local options="-e -l -i -v -h --help --test --devices --doctor --build-kernels"
    if [[ ${COMP_WORDS[1]} == --build-kernels ]]; then options=--arch; fi
    _reprise_offer "$(compgen -W "$options" -- "$word")"
  else
    _reprise_offer "$(compgen -f -X '!*.lua' -- "$word"; compgen -d -- "$word")"
  fi
}
complete -o filenames -F _reprise reprise
