-- 6 7 8 9 10
SELECT string_agg("id"::text, ' ' ORDER BY "id") FROM "SelectedSlots";
