//! Handlers: async functions over extractors.

use std::future::Future;

use self::sealed::{Sealed, Tuple};
use crate::extract::{Call, Extract, ExtractError, Spec};

mod sealed {
    /// Keeps the traits of this module from being implemented elsewhere.
    #[expect(unnameable_types, reason = "it is to be unnameable")]
    pub trait Sealed<A> {}

    /// Tells tuples from functions.
    #[derive(Debug)]
    #[expect(unnameable_types, reason = "it is to be unnameable")]
    pub enum Tuple {}
}

/// An async function whose arguments are extractors.
///
/// Implemented for functions and closures of up to eight arguments; not meant to be implemented by hand. The bounds that
/// an argument or a future must meet stand on [`tool`](crate::tool), so that the compiler points at the one that is wrong.
pub trait Handler<A>: Sealed<A> + Clone + Send + Sync + 'static {
    /// What the handler returns.
    type Output;
    /// The handler's body.
    type Future: Future<Output = Self::Output> + 'static;

    /// Starts the body.
    fn call(&self, arguments: A) -> Self::Future;
}

/// A tuple of extractors; not implemented by hand.
pub trait ExtractAll: Sealed<Tuple> + Sized {
    /// Gathers what all of them need.
    fn describe_all(spec: &mut Spec);

    /// Picks all of them, in order.
    ///
    /// # Errors
    ///
    /// The first that fails.
    fn extract_all(call: &mut Call<'_>) -> Result<Self, ExtractError>;
}

macro_rules! for_arguments {
    ($($argument:ident),*) => {
        impl<Func, Fut, $($argument),*> Sealed<($($argument,)*)> for Func
        where
            Func: Fn($($argument),*) -> Fut,
        {
        }

        #[allow(non_snake_case, reason = "the macro names each value after its type")]
        impl<Func, Fut, $($argument),*> Handler<($($argument,)*)> for Func
        where
            Func: Fn($($argument),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future + 'static,
        {
            type Output = Fut::Output;
            type Future = Fut;

            fn call(&self, ($($argument,)*): ($($argument,)*)) -> Fut {
                self($($argument),*)
            }
        }

        impl<$($argument: Extract),*> Sealed<Tuple> for ($($argument,)*) {}

        impl<$($argument: Extract),*> ExtractAll for ($($argument,)*) {
            fn describe_all(spec: &mut Spec) {
                let _ = &spec;
                $($argument::describe(spec);)*
            }

            fn extract_all(call: &mut Call<'_>) -> Result<Self, ExtractError> {
                let _ = &call;
                Ok(($($argument::extract(call)?,)*))
            }
        }
    };
}

for_arguments!();
for_arguments!(A);
for_arguments!(A, B);
for_arguments!(A, B, C);
for_arguments!(A, B, C, D);
for_arguments!(A, B, C, D, E);
for_arguments!(A, B, C, D, E, F);
for_arguments!(A, B, C, D, E, F, G);
for_arguments!(A, B, C, D, E, F, G, H);
