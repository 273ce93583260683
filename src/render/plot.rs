//! Plots of a report: the page-offset profile as an SVG or PNG file, and the figures of the HTML report.
//!
//! A figure is drawn once, as a list of marks (`drawing`), and written out by one of two small writers:
//! as SVG elements (`vector`) or as pixels (`raster`). Colours stand in `palette` alone. Nothing here
//! needs system fonts, and the same report always gives the same bytes.

pub(crate) mod drawing;
pub(crate) mod heat;
pub(crate) mod palette;
pub(crate) mod panel;
pub(crate) mod profile;
mod raster;
pub(crate) mod scale;
mod sheet;
pub(crate) mod vector;

use crate::report::Report;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// It would have no pixels, or more than fit into memory.
    #[error("the plot cannot be drawn: {width} by {height} pixels")]
    Size {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// The pixels cannot be written as PNG.
    #[error("the plot cannot be written as PNG: {0}")]
    Encoding(String),
}

/// The page-offset profile of the report's most telling copy path as a file of its own: one row a length,
/// one line an allocator, light or dark as the viewer prefers.
pub fn svg(report: &Report) -> String {
    vector::document(&sheet::sheet(report))
}

/// The same as PNG, in light colours, two pixels to the unit.
pub fn png(report: &Report) -> Result<Vec<u8>, PlotError> {
    raster::png(&sheet::sheet(report))
}
