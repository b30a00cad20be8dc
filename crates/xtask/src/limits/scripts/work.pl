my (%all, %later);
for my $i (0 .. 220000) {
    $all{"k$i"} = [$i, "v" x ($i % 90), {a => $i}] if $i % 2;
    $all{"s$i"} = "t" x ($i % 50);
}
for my $i (0 .. 220000) { delete $all{"k$i"} if $i % 3 }
$later{$_} = "w" x 200 for 0 .. 120000;
print scalar(keys %all), " ", scalar(keys %later), "\n";
