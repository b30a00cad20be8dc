# Prints "user used" for each two files of a crate of which the first names the second by a path from the crate's root.
# A folder counts as its file. Tests do not count. `.ci/house` passes the files of one crate, without lib.rs.
function emit(name) { if (name ~ /^[a-z_]+$/ && name != unit) print unit, name }

# Prints the names behind each `crate::`; those of a list in braces are the first name of each item.
function scan(text,   at, c, depth, name, is_named) {
  while (match(text, /(^|[^A-Za-z0-9_$])crate::/)) {
    text = substr(text, RSTART + RLENGTH)
    if (text !~ /^\{/) { match(text, /^[A-Za-z0-9_]*/); emit(substr(text, 1, RLENGTH)); continue }
    depth = 0; name = ""; is_named = 0
    for (at = 1; at <= length(text); at++) {
      c = substr(text, at, 1)
      if (c == "{" && depth++ == 0) continue
      if (depth == 1 && c ~ /[A-Za-z0-9_]/ && !is_named) name = name c
      if (depth == 1 && c ~ /[,:}]/ && name != "") { emit(name); name = ""; is_named = 1 }
      if (depth == 1 && c == ",") is_named = 0
      if (c == "}" && --depth == 0) break
    }
    text = substr(text, at)
  }
}

FNR == 1 {
  scan(text)
  text = ""; is_test = 0; unit = FILENAME; sub(/.*\/src\//, "", unit)
  root = unit ~ /\// ? "super::super::" : "super::"
  sub(/(\.rs|\/.*)$/, "", unit)
}
/^#\[cfg\((test|all\(test.*)\)\]$/ { is_test = 1 }
!is_test { sub(/\/\/.*/, ""); gsub(root, "crate::"); text = text " " $0 }
END { scan(text) }
