use strict;
my (%index, @lines);
my $state = 1;
sub draw { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0] }
for my $number (1 .. 120000) {
    my $word = join "", map { chr(97 + draw(16)) } 1 .. 3;
    push @{$index{$word}}, $number;
}
for my $word (sort keys %index) {
    push @lines, "$word " . join ",", @{$index{$word}};
}
my $count = 0;
for my $line (@lines) {
    my ($word, $rest) = split / /, $line;
    my @numbers = split /,/, $rest;
    $count += scalar(@numbers);
    $line =~ s/,/;/g;
}
print "$count\n";
