CREATE TABLE `policy_shadow` (
	`id` integer PRIMARY KEY NOT NULL,
	`version` integer NOT NULL,
	`since` integer NOT NULL,
	`by` text NOT NULL
);
