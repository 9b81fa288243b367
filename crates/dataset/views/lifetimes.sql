-- How long allocations live, in events, by line
select
  file, line, name,
  count(*) as allocations,
  sum(requested) as total_bytes,
  min(free_event - alloc_event) as shortest,
  max(free_event - alloc_event) as longest,
  sum(case when free_event is null then 1 else 0 end) as never_freed,
  sum(case when free_event is null then requested else 0 end) as never_freed_bytes
from allocations
group by file, line, name
order by total_bytes desc, file, line, name
