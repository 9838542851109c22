CREATE TABLE `notices` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`skill` text NOT NULL,
	`call` text NOT NULL,
	`notice` text NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `notices_skill` ON `notices` (`skill`,`at`);--> statement-breakpoint
CREATE INDEX `notices_call` ON `notices` (`call`);--> statement-breakpoint
CREATE INDEX `notices_at` ON `notices` (`at`);