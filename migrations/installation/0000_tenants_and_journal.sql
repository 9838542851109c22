CREATE TABLE `journal` (
	`seq` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`kind` text NOT NULL,
	`tenant` text NOT NULL,
	`body` text NOT NULL,
	`hash` text NOT NULL,
	`logged` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE INDEX `journal_logged` ON `journal` (`logged`);--> statement-breakpoint
CREATE TABLE `tenants` (
	`name` text PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`quota` text NOT NULL,
	`created_at` integer NOT NULL,
	`changed_at` integer NOT NULL,
	`revision` integer NOT NULL,
	`told` integer NOT NULL,
	`erased` integer DEFAULT false NOT NULL,
	`operator` text NOT NULL,
	`key_hash` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `tenants_told` ON `tenants` (`told`);