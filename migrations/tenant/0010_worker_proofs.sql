CREATE TABLE `proofs` (
	`worker` text PRIMARY KEY NOT NULL,
	`received_at` integer NOT NULL,
	`envelope` text NOT NULL
);
