//! Tests of the loop that need its insides.

mod models;
