//! The placement engine alone: metadata, without memory for blocks.

use std::ptr::NonNull;

use anyhow::Result;
use heapwright_placement::{
    BestFit, Buddy, Engine, FirstFit, Fit, GoodFit, Growth, NextFit, PolicyKind, RandomFit, Rules, Statistics, WorstFit,
};

use super::super::subject::Subject;
use heapwright_host::lazy::Lazy;

/// The step by which a growing heap grows, in bytes: that of the drop-in library.
const STEP: u32 = 1 << 16;

/// The alignment of every request, in bytes: malloc's.
const ALIGN: usize = 16;

struct Placed<E> {
    engine: E,
    /// The engine's state, declared after the engine so that it is dropped last.
    _metadata: Lazy<u64>,
}

/// The engine of `policy` for a region of `region` bytes.
pub fn build(policy: PolicyKind, region: usize) -> Result<Box<dyn Subject>> {
    /// The engine of one type, over metadata that the system commits as it is touched.
    macro_rules! placed {
        ($Engine:ty, $rules:expr, $region:expr) => {{
            let (rules, region) = ($rules, $region);
            let mut metadata = Lazy::zeroed(<$Engine>::metadata_cells(region, &rules)?)?;
            let base = NonNull::from(&mut metadata[..]).cast();
            // SAFETY: the cells were mapped just now: they are zero, of the required length, and nothing else uses
            // them. They stay mapped at the same address until the engine was dropped.
            let engine = unsafe { <$Engine>::create_zeroed(base, region, &rules)? };
            Box::new(Placed { engine, _metadata: metadata })
        }};
    }
    let rules = Rules { growth: Growth::Pages(STEP), statistics: Statistics::Off, ..Rules::default() };
    Ok(match policy {
        PolicyKind::First => placed!(Fit<'static, FirstFit>, rules, region),
        PolicyKind::Next => placed!(Fit<'static, NextFit>, rules, region),
        PolicyKind::Best => placed!(Fit<'static, BestFit>, rules, region),
        PolicyKind::Worst => placed!(Fit<'static, WorstFit>, rules, region),
        PolicyKind::Random => placed!(Fit<'static, RandomFit>, rules, region),
        PolicyKind::Good => placed!(Fit<'static, GoodFit>, rules, region),
        PolicyKind::Buddy => {
            placed!(Buddy<'static>, Rules { growth: Growth::Fixed, ..rules }, region.next_power_of_two())
        }
    })
}

impl<E: Engine> Subject for Placed<E> {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        self.engine.allocate(bytes, ALIGN).ok()
    }

    fn free(&mut self, block: usize, _bytes: usize) {
        assert!(self.engine.deallocate(block).is_ok(), "a workload frees what it allocated, once");
    }
}
