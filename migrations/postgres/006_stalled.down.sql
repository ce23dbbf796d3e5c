DROP TABLE stalls;
