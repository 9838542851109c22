CREATE TABLE `snapshots` (
	`digest` text PRIMARY KEY NOT NULL,
	`snapshot` text NOT NULL
);
