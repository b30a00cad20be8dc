create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 250000)
  insert into t select i, 'row' || i || hex(zeroblob(i % 60)), i * 1.5 from n;
create index tb on t(b);
delete from t where a % 3 = 0;
create table u as select a, b || 'z' as b from t where a % 2;
create index uc on u(b);
select count(*), sum(length(b)) from u;
