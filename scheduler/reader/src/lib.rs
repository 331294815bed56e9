//! Reads what models write: JSON, Python literals, calls, prose around them, and says what it had to mend.
