<?php
$state = 1;
$places = [];
for ($number = 0; $number < 150000; $number++) {
    $state = ($state * 1103515245 + 12345) & 0x7fffffff;
    $places["w" . (($state >> 8) % 6000)][] = "place $number";
}
ksort($places);
$length = 0;
foreach ($places as $word => $list) {
    $length += strlen($word . implode(",", $list));
}
echo $length, "\n";
