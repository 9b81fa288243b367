-- Ranks whose peak is off the median of their run by more than 5 % and 8 MiB
with places as (
  select
    run, step, rank, device, peak_requested, end_requested,
    row_number() over (partition by run, step order by peak_requested, rank, device) as place,
    count(*) over (partition by run, step) as ranks
  from ranks
  where device >= 0
),
middles as (
  select run, step, peak_requested as median_peak
  from places
  where 2 * place = ranks or 2 * place = ranks + 1
)
select
  p.run, p.step, p.rank, p.device, p.peak_requested, m.median_peak,
  p.peak_requested - m.median_peak as difference
from places p
join middles m on p.run = m.run and p.step = m.step
where p.ranks >= 3
  and abs(p.peak_requested - m.median_peak) >= 8388608
  and abs(p.peak_requested - m.median_peak) * 20 >= m.median_peak
order by abs(p.peak_requested - m.median_peak) desc, p.run, p.step, p.rank, p.device
