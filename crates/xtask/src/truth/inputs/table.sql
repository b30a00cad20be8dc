CREATE TABLE place (id INTEGER PRIMARY KEY, word TEXT, number INTEGER);
WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < 50000)
INSERT INTO place SELECT n, 'word ' || ((n * 7919) % 5003), (n * 104729) % 100003 FROM series;
CREATE INDEX by_word ON place (word, number);
SELECT count(*), max(total) FROM (SELECT word, sum(number) AS total FROM place GROUP BY word);
UPDATE place SET word = word || ' again' WHERE number % 3 = 0;
SELECT length(group_concat(word || ':' || number, ';')) FROM (SELECT word, number FROM place ORDER BY number DESC);
DELETE FROM place WHERE number % 2 = 0;
SELECT count(DISTINCT word) FROM place;
