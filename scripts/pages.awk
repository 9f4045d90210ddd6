# pages.awk - one program's manual page or completion, from its --help=table; see scripts/pages.
#   awk -F'\t' -v to=man|bash|zsh|fish -v version=V -f pages.awk TABLE
# A `program` line after the first is a verb of the first ("vlat info"); its flags follow.

$1 == "program" && !name { name = $2; synopsis = $3; about = $4; verb = ""; next }
$1 == "program" { verb = substr($2, length(name) + 2); verbs[++n_verbs] = verb }
$1 == "program" { verb_synopsis[verb] = $3; verb_about[verb] = $4; next }
$1 == "group"   { row[++rows] = "group"; of[rows] = verb; flag[rows] = $2; next }
$1 == "flag" {
    row[++rows] = $3; of[rows] = verb; flag[rows] = $2; usage[rows] = $4; help[rows] = $5
    facts[rows] = $6; aliases[rows] = $7; choices[rows] = $8
    if ($2 == "help" || $2 == "version")
        usage[rows] = "--" $2
}
END {
    if (to == "man") man()
    else if (to == "bash") bash()
    else if (to == "zsh") zsh()
    else fish()
}

# The first sentence of a text, without its full stop.
function sentence(s) { sub(/[.:] .*/, "", s); sub(/[.]$/, "", s); return s }
# All names of flag i with blanks before them: the flag's, its aliases, and --no_ of a switch.
function names(i,    s)
{
    s = " --" flag[i] (aliases[i] ? " " aliases[i] : "")
    return row[i] == "switch" && usage[i] != "--" flag[i] ? s " --no_" flag[i] : s
}
function words(s) { gsub(/[|]/, " ", s); return s }

# ---- a manual page ----

# Text for roff, in which a line may break after a | too.
function roff(s)
{
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/[|]/, "|\\:", s)
    return s ~ /^[.\x27]/ ? "\\&" s : s
}
function man_flags(v,    i)
{
    for (i = 1; i <= rows; i++) {
        if (of[i] != v)
            continue
        if (row[i] == "group") {
            if (v == "")
                print ".SS " roff(flag[i])
            continue
        }
        if (v != "" && (flag[i] == "help" || flag[i] == "version" || flag[i] == "config"))
            continue
        print ".TP\n.B " roff(usage[i]) "\n" roff(help[i])
        if (facts[i])
            print roff("(" facts[i] ")")
        if (aliases[i])
            print ".br\n" roff("Also " aliases[i])
    }
}
function man(    i)
{
    print ".TH " toupper(name) " 1 \"\" \"vlt " version "\""
    print ".ad l\n.nh\n.nr HY 0"         # so that names of flags stay whole, in groff 1.24 too
    print ".SH NAME\n" name " \\- " roff(tolower(substr(about, 1, 1)) substr(sentence(about), 2))
    print ".SH SYNOPSIS\n.B " roff(synopsis)
    print ".SH DESCRIPTION\n" roff(about)
    print (n_verbs ? ".SH VERBS" : ".SH FLAGS")
    print "Names may have \\(aq\\-\\(aq or \\(aq_\\(aq; values may follow a blank or \\(aq=\\(aq."
    man_flags("")
    if (n_verbs)
        print roff("Every verb has --config FILE, --help and --version.")
    for (i = 1; i <= n_verbs; i++) {
        print ".SS " roff(verb_synopsis[verbs[i]]) "\n" roff(verb_about[verbs[i]])
        man_flags(verbs[i])
    }
    print ".SH EXIT STATUS"
    print ".TP\n.B 0\nDone.\n.TP\n.B 1\nFailed; a line names the error, its place and the remedy."
    print ".TP\n.B 2\nA flag, a value or a combination is not allowed; nothing was written."
    if (name == "vprep" || name == "vlat")
        print ".TP\n.B 3\nDone, but some inputs were skipped."
    print ".SH SEE ALSO\n.BR vlt (1),\n.BR vprep (1),\n.BR vtrain (1),\n.BR vdecode (1),"
    print ".BR vlat (1)"
}

# ---- bash ----

function bash_case(v,    i, all, s)
{
    print "    case $prev in"
    for (i = 1; i <= rows; i++) {
        if (of[i] != v || row[i] == "group")
            continue
        all = all names(i)
        s = names(i)
        gsub(/ /, "|", s)
    if (row[i] == "choice" && choices[i])
            print "    " substr(s, 2) ") words=\"" words(choices[i]) "\" ;;"
        else if (row[i] == "path" || row[i] == "value")
            print "    " substr(s, 2) ") return ;;"
    }
    print "    *) [[ $cur != -* ]] || words=\"" substr(all, 2) "\" ;;\n    esac"
}
function bash(    i)
{
    print "# completion of " name " for bash; made by scripts/pages\n_" name "()\n{"
    print "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words="
    if (n_verbs) {
        for (i = 1; i <= n_verbs; i++)
            all_verbs = all_verbs " " verbs[i]
        print "    if [ \"$COMP_CWORD\" -eq 1 ]; then"
        print "        words=\"--help --version" all_verbs "\""
        print "    fi\n    case ${COMP_WORDS[1]} in"
        for (i = 1; i <= n_verbs; i++) {
            print "    " verbs[i] ")"
            bash_case(verbs[i])
            print "    ;;"
        }
        print "    esac"
    } else {
        bash_case("")
    }
    print "    [ -z \"$words\" ] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")"
    print "}\ncomplete -o default -F _" name " " name
}

# ---- zsh ----

function zsh_text(s) { gsub(/[\[\]:\\]/, "\\\\&", s); gsub(/\x27/, "\x27\\\x27\x27", s); return s }
function zsh_flags(v,    i, k, n, name_of, action)
{
    for (i = 1; i <= rows; i++) {
        if (of[i] != v || row[i] == "group")
            continue
        action = row[i] == "path" ? ":file:_files" : row[i] == "value" ? ":value: " : ""
        if (row[i] == "choice")
            action = ":value:(" words(choices[i]) ")"
        n = split(substr(names(i), 2), name_of, " ")
        for (k = 1; k <= n; k++)
            print "    \x27*" name_of[k] "[" zsh_text(sentence(help[i])) "]" action "\x27 \\"
    }
    print "    \x27*:file:_files\x27"
}
function zsh(    i)
{
    print "#compdef " name "\n# completion of " name " for zsh; made by scripts/pages"
    if (!n_verbs) {
        print "_arguments \\"
        zsh_flags("")
        return
    }
    print "if (( CURRENT == 2 )); then\n    local -a verbs=("
    for (i = 1; i <= n_verbs; i++)
        print "    \x27" verbs[i] ":" zsh_text(sentence(verb_about[verbs[i]])) "\x27"
    print "    )\n    _describe verb verbs\n    return\nfi\nlocal verb=$words[2]"
    print "shift words\n(( CURRENT-- ))\ncase $verb in"
    for (i = 1; i <= n_verbs; i++) {
        print verbs[i] ")\n    _arguments \\"
        zsh_flags(verbs[i])
        print "    ;;"
    }
    print "esac"
}

# ---- fish ----

function fish_text(s) { gsub(/[\\\x27]/, "\\\\&", s); return s }
function fish(    i, k, n, name_of, line)
{
    print "# completion of " name " for fish; made by scripts/pages"
    for (i = 1; i <= n_verbs; i++)
        print "complete -c " name " -n __fish_use_subcommand -a " verbs[i] " -d \x27" \
              fish_text(sentence(verb_about[verbs[i]])) "\x27"
    for (i = 1; i <= rows; i++) {
        if (row[i] == "group")
            continue
        n = split(substr(names(i), 2), name_of, " ")
        for (k = 1; k <= n; k++) {
            line = "complete -c " name
            if (of[i] != "")
                line = line " -n \x27__fish_seen_subcommand_from " of[i] "\x27"
            line = line (name_of[k] ~ /^--/ ? " -l " substr(name_of[k], 3) : \
                         " -s " substr(name_of[k], 2))
            if (row[i] == "choice")
                line = line " -x -a \x27" words(choices[i]) "\x27"
            else if (row[i] == "path")
                line = line " -r"
            else if (row[i] == "value")
                line = line " -x"
            print line " -d \x27" fish_text(sentence(help[i])) "\x27"
        }
    }
}
