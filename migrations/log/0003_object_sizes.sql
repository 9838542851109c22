CREATE TABLE `objects` (
	`name` text PRIMARY KEY NOT NULL,
	`live` integer NOT NULL,
	`sealed` integer NOT NULL
);
