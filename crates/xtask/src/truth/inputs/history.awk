# A history for git fast-import: commits that change some of 40 files.
BEGIN {
  for (commit = 1; commit <= 320; commit++) {
    print "commit refs/heads/main"
    print "committer a <a@example.org> " 1600000000 + commit * 1000 " +0000"
    message = "Commit " commit
    print "data " length(message) "\n" message
    for (change = 0; change < 4; change++) {
      content = ""
      for (line = 0; line < 120; line++) {
        content = content "line " line " " (line % 17 == commit % 17 ? commit : change) "\n"
      }
      print "M 100644 inline files/" (commit * 7 + change * 11) % 40 "\ndata " length(content) "\n" content
    }
  }
}
