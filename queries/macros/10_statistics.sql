-- Distribution-free interval of a median from order statistics.
-- Of n independent values, the interval from the r-th smallest to the r-th largest covers the median with
-- probability 1 - 2 P(Binomial(n, 1/2) < r) (David and Nagaraja, Order Statistics, 3rd ed., section 7.1).

CREATE MACRO symmetric_coverage(n, r) AS
    1 - 2 * coalesce(
        list_sum(list_transform(
            range(0, r),
            lambda k: exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * ln(2))
        )),
        0
    );

-- The largest r whose interval still covers with the asked confidence; NULL where n is too small for any.
-- 1e-12 absorbs the rounding of lgamma where a coverage equals the confidence exactly.
CREATE MACRO order_statistic_rank(n, confidence) AS
    list_max(list_filter(
        range(1, n // 2 + 1),
        lambda r: symmetric_coverage(n, r) >= confidence - 1e-12
    ));
