-- Annotated phases: how often, and the highest requested bytes in them
select
  name,
  count(*) as times,
  max(peak_requested) as highest_peak,
  min(peak_requested) as lowest_peak,
  sum(case when end_us is null then 1 else 0 end) as unfinished
from annotations
group by name
order by highest_peak desc, name
