# The same items as JSON (`form=json`) or XML.
BEGIN {
  print form == "json" ? "[" : "<items>"
  for (item = 0; item < items; item++) {
    value = item * 7919 % 10007
    if (form == "json") {
      printf "%s{\"id\":%d,\"name\":\"item %d\",\"tags\":[%d,%d],\"more\":{\"value\":\"v%d\"}}\n",
             item ? "," : "", item, value, value % 7, value % 11, value
    } else {
      printf "<item id=\"%d\"><name>item %d</name><tag n=\"%d\"/><value>v%d</value></item>\n",
             item, value, value % 7, value
    }
  }
  print form == "json" ? "]" : "</items>"
}
