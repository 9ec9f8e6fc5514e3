pub mod ledger;
