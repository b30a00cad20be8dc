use strict;
my (%places, $state, $count);
$state = 1;
for my $number (1 .. 100000) {
    $state = ($state * 1103515245 + 12345) & 0x7fffffff;
    my $word = "w" . (($state >> 8) % 5000);
    push @{$places{$word}}, $number;
    $places{$word . "x"} .= ",$number";
}
for my $word (sort keys %places) {
    $count += ref $places{$word} ? @{$places{$word}} : length $places{$word};
}
print "$count\n";
