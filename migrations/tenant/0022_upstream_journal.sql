CREATE TABLE `upstream_journal` (
	`seq` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`kind` text NOT NULL,
	`body` text NOT NULL,
	`hash` text NOT NULL,
	`logged` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE INDEX `upstream_journal_logged` ON `upstream_journal` (`logged`);