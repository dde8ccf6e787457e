// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Types of elements.

use crate::ffi::numbers;

numbers! {
    /// The type of an element.
    DType {
        /// Unsigned, 8 bits; and bytes of anything.
        U8 = GPUMAP_DTYPE_U8,
        /// IEEE 754 binary16.
        F16 = GPUMAP_DTYPE_F16,
        /// The upper half of an `f32`.
        BF16 = GPUMAP_DTYPE_BF16,
        /// IEEE 754 binary32.
        F32 = GPUMAP_DTYPE_F32,
        /// Signed, 32 bits.
        I32 = GPUMAP_DTYPE_I32,
        /// Signed, 64 bits.
        I64 = GPUMAP_DTYPE_I64,
        /// IEEE 754 binary64.
        F64 = GPUMAP_DTYPE_F64,
        /// Unsigned, 16 bits.
        U16 = GPUMAP_DTYPE_U16,
        /// Unsigned, 32 bits.
        U32 = GPUMAP_DTYPE_U32,
        /// Unsigned, 64 bits.
        U64 = GPUMAP_DTYPE_U64,
        /// A byte, 0 or 1; of tensors, jobs move it as `U8`.
        Bool = GPUMAP_DTYPE_BOOL,
        /// Signed, 8 bits; of tensors, jobs move it as `U8`.
        I8 = GPUMAP_DTYPE_I8,
        /// Signed, 16 bits; of tensors, jobs move it as `U16`.
        I16 = GPUMAP_DTYPE_I16,
        /// 8 bits without infinities; of tensors.
        F8E4M3 = GPUMAP_DTYPE_F8_E4M3,
        /// 8 bits with a mantissa of 2; of tensors.
        F8E5M2 = GPUMAP_DTYPE_F8_E5M2,
    }
}

impl DType {
    /// Bytes of an element; 0 of [`DType::Unknown`].
    pub const fn bytes(self) -> u64 {
        match self {
            DType::U8
            | DType::Bool
            | DType::I8
            | DType::F8E4M3
            | DType::F8E5M2 => 1,
            DType::F16 | DType::BF16 | DType::U16 | DType::I16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::I64 | DType::F64 | DType::U64 => 8,
            DType::Unknown(_) => 0,
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that any bytes are a value of: memory can be viewed as a slice
/// of it.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// The type of elements that jobs have for it.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident,)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const DTYPE: DType = DType::$dtype;
            }
        )*
    };
}

elements! {
    u8 => U8,
    i8 => I8,
    u16 => U16,
    i16 => I16,
    u32 => U32,
    i32 => I32,
    u64 => U64,
    i64 => I64,
    f32 => F32,
    f64 => F64,
}

/// Bytes as elements; None where they are not aligned to them, or are not a
/// whole number of them.
pub(crate) fn elements<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: any bytes are a value of an Element.
    let (before, middle, after) = unsafe { bytes.align_to::<T>() };

    (before.is_empty() && after.is_empty()).then_some(middle)
}

/// As `elements()`.
pub(crate) fn elements_mut<T: Element>(bytes: &mut [u8]) -> Option<&mut [T]> {
    // SAFETY: any bytes are a value of an Element, and any value of an Element
    // has bytes without padding.
    let (before, middle, after) = unsafe { bytes.align_to_mut::<T>() };

    (before.is_empty() && after.is_empty()).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_numbers_and_sizes() {
        for number in 0..15 {
            let dtype = DType::from_raw(number);
            assert!(!matches!(dtype, DType::Unknown(_)), "{}", number);
            assert_eq!(dtype.raw(), number);
            assert!(dtype.bytes() > 0);
        }
        assert_eq!(DType::from_raw(99), DType::Unknown(99));
        assert_eq!(DType::Unknown(99).raw(), 99);
        assert_eq!(DType::Unknown(99).bytes(), 0);
        assert_eq!(f32::DTYPE.bytes(), 4);
    }

    #[test]
    fn elements_are_whole_and_aligned() {
        let words = [1u64, 2, 3];
        // SAFETY: the array has these bytes.
        let bytes = unsafe { words.align_to::<u8>() }.1;

        assert_eq!(elements::<u64>(bytes), Some(&words[..]));
        assert_eq!(elements::<u8>(bytes).map(<[u8]>::len), Some(24));
        assert_eq!(elements::<u32>(&bytes[4..]).map(<[u32]>::len), Some(5));
        assert_eq!(elements::<u64>(&bytes[4..20]), None);
        assert_eq!(elements::<u32>(&bytes[..7]), None);
        assert_eq!(elements::<f64>(&[]).map(<[f64]>::len), Some(0));
        let mut two = [0u16; 2];
        // SAFETY: as above.
        let bytes = unsafe { two.align_to_mut::<u8>() }.1;
        elements_mut::<u16>(bytes).unwrap()[1] = 5;
        assert_eq!(two, [0, 5]);
    }
}
