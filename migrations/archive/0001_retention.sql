CREATE TABLE `entries` (
	`run` text PRIMARY KEY NOT NULL,
	`removed` integer NOT NULL,
	`changed` integer NOT NULL,
	`ask_again_at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `entries_changed` ON `entries` (`removed`,`changed`);--> statement-breakpoint
CREATE INDEX `entries_asked` ON `entries` (`ask_again_at`) WHERE "entries"."ask_again_at" > 0;