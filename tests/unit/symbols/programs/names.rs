// SPDX-License-Identifier: Apache-2.0
// Names of every kind that Rust mangles; see test_symbols_rust.c.
#![allow(dead_code, uncommon_codepoints, non_snake_case)]

pub trait Étage {
    fn größe(&self) -> usize;
}

pub struct Feld<T, const N: usize, const C: char, const B: bool, const I: i8>([T; N]);

impl<T, const N: usize, const C: char, const B: bool, const I: i8> Étage for Feld<T, N, C, B, I> {
    #[inline(never)]
    fn größe(&self) -> usize {
        N
    }
}

#[inline(never)]
pub fn call<F: Fn(i32) -> i32>(f: F) -> i32 {
    f(1)
}

#[inline(never)]
pub fn take<T: ?Sized>(t: &T) -> usize {
    std::mem::size_of_val(t)
}

#[inline(never)]
pub fn generic<T>() -> usize {
    std::mem::size_of::<T>()
}

mod inner {
    pub struct S;

    impl S {
        #[inline(never)]
        pub fn method<'a>(&'a self, x: &'a mut [u8]) -> &'a u8 {
            &x[0]
        }
    }

    impl Drop for S {
        #[inline(never)]
        fn drop(&mut self) {
            println!("x");
        }
    }
}

fn main() {
    let k = std::env::args().count() as i32;
    println!("{}", call(|x| x + k) + call(move |x| call(|y| x * y)));
    println!("{}", Feld::<u8, 3, 'ä', true, -5>([0; 3]).größe());
    println!("{}", Feld::<(i32,), 3, '\n', false, 5>([(0,); 3]).größe());
    println!("{}", take("x") + take(&[1, 2, 3][..]));
    println!("{}", take::<dyn Fn(&i32) -> bool + Send>(&|x: &i32| *x > 0));
    println!("{}", generic::<for<'a, 'b> fn(&'a i32, &'b u8) -> &'a i32>());
    println!("{}", generic::<extern "C" fn(*const u8, *mut ())>());
    println!("{}", generic::<unsafe extern "system" fn() -> i32>());
    println!("{}", generic::<Box<dyn Iterator<Item = Option<&'static str>>>>());
    println!("{}", generic::<[[f64; 4]; 2]>() + generic::<(u8, (), i128)>());
    let mut b = [1u8, 2];
    println!("{}", inner::S.method(&mut b));
}
