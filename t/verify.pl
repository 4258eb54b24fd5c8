#!/usr/bin/perl
# The ledger of a store checked from LEDGER.md alone, with nothing of ours: host
# chain, days, segments, marks, pairs and counts. Usage: verify.pl STORE; exit 0 or 6.
use strict; use warnings; use Digest::SHA qw(sha256_hex); use JSON::PP;
$SIG{__DIE__} = sub { die @_ if $^S; print @_; exit 6 }; $SIG{PIPE} = 'IGNORE';
my ($store, $bad, $rows) = ($ARGV[0], 0, 0); my ($hseq, $head, $day, %seg, @all, %known, %until, %cut) = (0, "0" x 64, undef);
sub bad { print "@_\n"; $bad++ }
sub slurp { lstat $_[0]; -f _ or return undef; open my $f, '<', $_[0] or return undef; local $/; scalar(readline $f) // '' } # no link, no FIFO
sub ls { lstat $_[0] or return; -d _ && opendir my $d, $_[0] or do { bad "$_[0]: no directory"; return }; map { "$_[0]/$_" } sort grep { !/^\.\.?$/ } readdir $d }
sub row { # one line: its form and hash checked; undef when it does not hold
	my %r; (@r{qw(text type owner seq ts by kind json prev hash)}) = $_[0] =~ /^(\{"v":1,"(inv|host)":"([0-9a-f-]{36})","h?seq":(\d+),"ts":"([0-9TZ:.-]{27})","mono_ns":\d+,"by":"(\w+)","kind":"([a-z0-9_.]+)","payload":(\{.*\}),"prev":"([0-9a-f]{64})"),"hash":"([0-9a-f]{64})"\}$/s or return undef;
	sha256_hex($r{text}) eq $r{hash} or return undef;
	# No name twice in an object; whole numbers; a quote inside a text is escaped, so that what is looked for is a member.
	(my $t = $r{json}) =~ s/("(?:[^"\\]|\\.)*":)|"(?:[^"\\]|\\.)*"/$1 \/\/ 0/ges; $r{type} eq 'host' && $t =~ /:-?\d+[.eE]/ and return undef; while ($t =~ s/\{([^{}]*)\}/0/) { my ($in, %name) = $1; $name{$1}++ and return undef while $in =~ /"((?:[^"\\]|\\.)*)":/g }
	$r{p} = $r{type} eq 'host' || $r{kind} =~ /^skill.invoked/ ? eval { decode_json($r{json}) } // return undef : { $r{json} =~ /[,{]"(invocation_id|call|count|outcome)":"?([0-9a-z-]+)/g };
	\%r }
sub part { # one file of a segment
	my ($s, $file, $torn, $l, $until) = (@_[0, 1], '', 0, $until{$_[1] =~ s/(\d+)(?=\.jsonl$)/$1 + 1/er});
	$known{$file}++ and return bad "$file: opened twice";
	my $text = slurp($file) // return bad "$file: is missing";
	$torn = substr $text, rindex($text, "\n") + 1, length $text, '';
	for ($text =~ /(.*)\n/g) { $l++;
		my $r = row($_) or ($until && $s->{rows} + 1 >= $until ? last : return bad "$file:$l: hash"); my $p = $r->{p};
		bad "$file:$l: invocation" if $r->{owner} ne $s->{inv} || $r->{type} ne 'inv' || ($p->{invocation_id} // '') ne $s->{inv};
		last if $until && $r->{seq} >= $until; bad "$file:$l: seq" if $r->{seq} != ++$s->{rows}; bad "$file:$l: prev" if $r->{prev} ne $s->{head};
		bad "$file:$l: after the end" if $s->{ended}; $s->{before} //= { %$s{qw(calls denied errors timeouts)} } if $r->{ts} ge $s->{cut};
		$s->{head} = $r->{hash}; push @{ $s->{is} }, $r->{hash}; $s->{bytes} += 1 + length; next if $r->{by} eq 'skill';
		if ($r->{kind} =~ /^skill.(invoked_started|sandbox_attested)$/) { bad "$file:$l: late" if $s->{began}; $s->{began} = $1 eq 'invoked_started' }
		elsif (!$s->{began} && ($p->{outcome} // '') ne 'refused' && $r->{by} !~ /^(supervisor|recovery)$/) { bad "$file:$l: before the start" }
		if ($r->{kind} eq 'skill.tool_call_started') { $s->{calls}++; $s->{open}{$p->{call}}++ and bad "$file:$l: started twice" }
		elsif ($r->{kind} eq 'skill.tool_call_completed') { delete $s->{open}{$p->{call}} or $s->{lost} ? $s->{calls}++ : bad "$file:$l: completed without started";
			$s->{errors} += $p->{outcome} eq 'error'; $s->{timeouts} += $p->{outcome} eq 'timeout' }
		elsif ($r->{kind} eq 'skill.tool_denied') { my $n = $p->{count} // 1; $s->{denied} += $n; $s->{calls} += $n unless $p->{call} }
		elsif ($r->{kind} eq 'skill.invoked_completed') { $s->{ended} = 1;
			$s->{lost} && $p->{$_} > $s->{$_} and $s->{$_} = $p->{$_} for qw(calls denied); bad "$file:$l: counts" if !$s->{lost} && ($p->{calls} != $s->{calls} || $p->{denied} != $s->{denied}) } $s->{lost} += $2 - $1 + 1 if $r->{kind} eq 'skill.rows_lost' && $r->{json} =~ /"from":(\d+),"to":(\d+)/ }
	($s->{torn_bytes}, $s->{torn_sha256}) = (length $torn, sha256_hex($torn)) if length $torn; $rows += $l }
my ($host) = (slurp("$store/audit/host.json") // '') =~ /\A\{"v":1,"host":"([0-9a-f-]{36})"\}\n\z/; $host //= bad('host.json: form') && '';
my @days = grep { m{/\d{4}-\d\d-\d\d$} } ls("$store/audit"); bad "$_: is a link" for grep { -l } @days; bad "$_: quarantined" for map { ls("$_/quarantine") } @days; my @hosts = grep { lstat } map { "$_/host.jsonl" } @days;
for (map { slurp($_) // '' } @hosts) { $until{"$store/audit/$1"} = $2 while /"file":"([^"]*)","part":\d+,"seq":(\d+)/g; push @{ $cut{$1} }, $2 // '~' while /"invocation_id":"([0-9a-f-]+)","reason"(?:[^\n]*"before":\{"day":"([0-9-]+)")?/g }
for my $file (@hosts) {
	my ($dir, $gap, $first, $l) = ($file =~ m{(.*)/}, '', 1, 0); for (split /(?<=\n)/, slurp($file) // bad("$file: no file") && '') { $l++;
		my $r = /\n\z/ ? row(substr $_, 0, -1) : undef; if (!$r) { $gap .= $_; next }
		my ($p, $k) = ($r->{p}, $r->{kind}); if ($k eq 'audit.recovered') { chop $gap; bad "$file:$l: torn" if $p->{torn_bytes} != length $gap || $p->{torn_sha256} ne sha256_hex($gap) || $gap =~ /"hash":"[0-9a-f]{64}"\}$/m; $gap = '' }
		bad "$file:$l: rows that do not hold before it" if length $gap && $k ne 'audit.day_opened'; bad "$file:$l: host" if $r->{owner} ne $host || $r->{type} ne 'host'; bad "$file:$l: hseq" if $r->{seq} != ++$hseq;
		bad "$file:$l: prev" if $r->{prev} ne $head; bad "$file:$l: day" if $first != ($k eq 'audit.day_opened'); bad "$file:$l: link" if $first && (($p->{prev_day} // '') ne ($day // '') || ($p->{prev_head} // $head) ne $head);
		($head, $first) = ($r->{hash}, 0); $rows++; if ($k eq 'audit.segment_mark') { for (@{ $p->{marks} // die "$file:$l: no marks\n" }) { my $s = $seg{ $_->{invocation_id} }; !$s || $s->{closed} ? bad "$file:$l: mark: not open" : push @{ $s->{marks} }, $_ } }
		my $inv = $p->{invocation_id} // next; my $s = $seg{$inv};
		if ($k eq 'audit.segment_opened') { $s && !$s->{closed} and bad "$file:$l: opened twice";
			push @all, $seg{$inv} = { inv => $inv, day => substr($p->{file}, 0, 10), cut => shift @{ $cut{$inv} } // '~', head => $r->{hash}, parts => 1, map { $_ => 0 } qw(rows bytes calls denied errors timeouts torn_bytes) }; part($all[-1], "$store/audit/$p->{file}") }
		elsif (!$s || $s->{closed}) { bad "$file:$l: not open" }
		elsif ($k eq 'audit.segment_part') { bad "$file:$l: part" if $p->{seq} != $s->{rows} + 1 || $p->{head} ne $s->{head} || $p->{part} != ++$s->{parts}; part($s, "$store/audit/$p->{file}") }
		elsif ($k eq 'audit.segment_closed') { $s->{closed} = 1; $s->{open_calls} = keys %{ $s->{open} // {} };
			($p->{$_} // '') eq ($s->{$_} // '') or bad "$file:$l: $_ is $p->{$_} and not $s->{$_}" for qw(parts rows bytes calls denied errors timeouts open_calls head torn_bytes torn_sha256); bad "$file:$l: lost" if $p->{lost} < ($s->{lost} // 0); my $b = $s->{before} // $s; my ($at) = $dir =~ m{([^/]+)$}; ($p->{before} ? $p->{before}{day} // '?' : '') eq ($s->{day} eq $at ? '' : $at) or bad "$file:$l: before: day"; $p->{before} and $p->{before}{$_} != $b->{$_} and bad "$file:$l: before: $_" for qw(calls denied errors timeouts);
			bad "$file:$l: $inv: no end, or damaged" if !$s->{ended} || $p->{reason} eq 'damaged' } }
	bad "$file: torn" if length $gap; ($day) = $dir =~ m{([^/]+)$} unless $first }
for my $s (@all) { my $at = 1; for (@{ $s->{marks} // [] }) { bad "$s->{inv}: row $_->{seq}: mark" if $_->{seq} < $at || ($s->{is}[$_->{seq} - 1] // '') ne $_->{head}; $at = $_->{seq} }
	$s->{closed} or -e "$store/run/$s->{inv}.lock" or bad "$s->{inv}: never closed" }
$known{$_} or m{/seg/(..)/\1[0-9a-f-]{34}\.p\d+\.jsonl$} && !-l && -f && -z or bad "$_: no anchor" for map { ls($_) } map { ls("$_/seg") } @days; # empty: a start that failed
if (my @parts = sort keys %known) { open my $jq, '|-', 'jq empty' or die; print $jq map { (slurp($_) // '') =~ /(.*\n)/s ? $1 : '' } @parts; close $jq or bad 'a row is no JSON' }
print "$rows rows, ", scalar @all, " segments\n" unless $bad; exit($bad ? 6 : 0);
