//! The published times of every run, and the published run with which each of our rows is comparable.

use heapwright_placement::PolicyKind;

use super::timing::{Published, Race, SYSTEM, Unit};
use heapwright_stats as stats;
use heapwright_workloads::published::programs::Program;

const FITS: [PolicyKind; 4] = [PolicyKind::First, PolicyKind::Next, PolicyKind::Best, PolicyKind::Worst];

/// Report 000, Figure 6: 20 runs and their averages.
pub const FIGURE_6: Race = Race {
    report: "000",
    program: Program::Fits,
    engines: &FITS,
    regions: &[],
    summary: stats::mean,
    tables: &[Published {
        table: "Figure 6: time of the program",
        unit: Unit::Seconds,
        runs: &[
            (
                "next",
                &[
                    126.288_585,
                    128.215_849,
                    128.399_234,
                    127.536_721,
                    127.269_223,
                    126.088_082,
                    129.537_687,
                    127.618_167,
                    131.517_739,
                    131.626_959,
                    129.952_593,
                    130.429_732,
                    130.308_85,
                    127.338_867,
                    127.227_665,
                    128.860_923,
                    132.383_404,
                    131.492_561,
                    130.030_729,
                    130.888_871,
                ],
            ),
            (
                "first",
                &[
                    146.926_659,
                    150.251_621,
                    149.618_529,
                    176.899_772,
                    150.172_677,
                    147.830_578,
                    149.054_168,
                    148.079_823,
                    148.263_829,
                    149.425_158,
                    153.126_948,
                    185.401_168,
                    179.148_286,
                    192.266_177,
                    188.540_725,
                    152.299_01,
                    180.374_065,
                    186.923_726,
                    176.303_47,
                    188.030_235,
                ],
            ),
            (
                "best",
                &[
                    170.136_035,
                    171.035_22,
                    172.285_13,
                    171.940_884,
                    203.973_141,
                    202.041_65,
                    199.914_061,
                    167.983_722,
                    165.861_949,
                    167.728_377,
                    170.184_373,
                    169.898_655,
                    168.226_157,
                    171.018_599,
                    168.155_448,
                    168.222_867,
                    169.649_265,
                    165.219_676,
                    165.609_478,
                    166.520_481,
                ],
            ),
            (
                "worst",
                &[
                    172.085_502,
                    172.408_772,
                    173.744_957,
                    172.987_527,
                    168.841_069,
                    169.482_314,
                    193.031_454,
                    180.991_786,
                    169.801_395,
                    172.146_72,
                    165.908_756,
                    168.931_31,
                    169.087_884,
                    169.181_476,
                    168.411_906,
                    170.279_504,
                    169.019_803,
                    170.400_704,
                    170.411_665,
                    173.523_017,
                ],
            ),
            (
                SYSTEM,
                &[
                    0.978_811, 0.976_18, 0.972_781, 0.980_732, 0.973_298, 0.960_092, 0.971_532, 0.969_842, 0.972_446,
                    0.972_148, 0.968_177, 0.973_149, 0.971_942, 0.971_612, 0.969_793, 0.968_051, 0.965_901, 0.964_158,
                    0.980_902, 0.964_067,
                ],
            ),
        ],
        why: "theirs walks the list of all blocks at every request, and again at every free; ours walks no list",
        defect: None,
    }],
};

const ALLOCATE_WHY: &str =
    "theirs walks the list of all blocks (but for next fit: there it is one machine against another), ours none";
const FREE_WHY: &str = "theirs walks the list of all blocks to find the one that goes, ours looks it up";

/// Report 001: 5 runs, whose median is comparable. It allocates from a region of its own, as the rows with (region) do.
pub const ARENA: Race = Race {
    report: "001",
    program: Program::Arena,
    engines: &FITS,
    regions: &FITS,
    summary: stats::median,
    tables: &[
        Published {
            table: "10,000 x 16 bytes: allocate",
            unit: Unit::Milliseconds,
            runs: &[
                ("first (region)", &[88.098, 88.186, 88.363, 87.969, 87.941]),
                ("best (region)", &[102.162, 139.047, 135.592, 140.777, 139.605]),
                ("next (region)", &[0.44, 0.829, 0.805, 0.783, 0.808]),
                ("worst (region)", &[133.893, 135.373, 137.959, 132.488, 134.067]),
                (SYSTEM, &[0.335, 0.31, 0.309, 0.541, 0.409]),
            ],
            why: ALLOCATE_WHY,
            defect: None,
        },
        Published {
            table: "10,000 x 16 bytes: free",
            unit: Unit::Milliseconds,
            runs: &[
                ("first (region)", &[101.545, 105.1, 102.826, 114.544, 103.338]),
                ("best (region)", &[108.122, 137.144, 136.024, 135.56, 136.625]),
                ("next (region)", &[102.501, 129.659, 137.155, 134.623, 137.155]),
                ("worst (region)", &[144.291, 139.546, 139.679, 136.852, 134.457]),
                (SYSTEM, &[0.108, 0.102, 0.115, 0.149, 0.107]),
            ],
            why: FREE_WHY,
            defect: None,
        },
        Published {
            table: "100,000 x 4096 bytes: allocate",
            unit: Unit::Milliseconds,
            runs: &[
                ("first (region)", &[8_753.209, 8_955.448, 8_869.089, 8_861.133, 8_886.668]),
                ("best (region)", &[10_923.032, 13_765.955, 13_782.679, 13_772.51, 13_755.305]),
                ("next (region)", &[4.184, 7.865, 7.46, 7.48, 7.462]),
                ("worst (region)", &[12_840.944, 13_552.481, 13_354.962, 13_347.891, 13_341.622]),
                (SYSTEM, &[157.601, 162.389, 155.892, 162.971, 177.391]),
            ],
            why: ALLOCATE_WHY,
            defect: None,
        },
        Published {
            table: "100,000 x 4096 bytes: free",
            unit: Unit::Milliseconds,
            runs: &[
                ("first (region)", &[40_014.219, 39_990.823, 40_046.468, 40_053.641, 44_236.838]),
                ("best (region)", &[52_191.549, 52_454.322, 52_478.323, 52_470.39, 52_034.248]),
                ("next (region)", &[49_611.353, 52_564.055, 52_614.65, 52_566.367, 52_277.634]),
                ("worst (region)", &[52_361.14, 52_355.159, 52_278.325, 52_205.874, 51_230.047]),
                (SYSTEM, &[32.535, 40.772, 30.349, 31.074, 35.295]),
            ],
            why: FREE_WHY,
            defect: Some((
                "first (region)",
                "the published program never stored the pointers that it freed here, so it timed something else",
            )),
        },
        Published {
            table: "1,000 x (allocate + free)",
            unit: Unit::Milliseconds,
            runs: &[
                ("first (region)", &[0.024, 0.024, 0.048, 0.047, 0.051]),
                ("best (region)", &[0.057, 0.056, 0.057, 0.055, 0.026]),
                ("next (region)", &[0.056, 0.055, 0.055, 0.076, 0.026]),
                ("worst (region)", &[0.048, 0.056, 0.044, 0.056, 0.026]),
                (SYSTEM, &[0.085, 0.081, 0.083, 0.11, 0.083]),
            ],
            why: "another machine, and a heap of one block either way",
            defect: None,
        },
    ],
};

/// Report 004: 2 runs, each the average time of 10,000 pairs.
pub const PAIRS: Race = Race {
    report: "004",
    program: Program::Pairs,
    engines: &PolicyKind::ALL,
    regions: &[],
    summary: stats::mean,
    tables: &[Published {
        table: "Allocate and free 128 bytes: time of a pair",
        unit: Unit::Milliseconds,
        runs: &[("mapped", &[0.001_370_91, 0.001_167_64]), (SYSTEM, &[0.000_061_964_4, 0.000_056_311_6])],
        why: "another machine; a mapping and an unmapping either way",
        defect: None,
    }],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_give_the_published_averages() {
        let averages = FIGURE_6.tables[0].runs.iter().map(|(_, runs)| format!("{:.7}", stats::mean(runs).unwrap()));
        let published = ["129.1506221", "164.9468312", "173.7802584", "172.0338761", "0.9712807"];
        assert!(averages.eq(published.map(String::from)));
    }
}
